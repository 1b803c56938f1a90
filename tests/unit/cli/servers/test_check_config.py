"""--check-config: what a start would refuse, told before it."""

import click
import pytest
from click.testing import CliRunner

from popmq_cli.servers.run_broker import run_broker
from popmq_cli.servers.run_nameserver import run_nameserver
from popmq_cli.servers.run_proxy import run_proxy

NEEDED = {"POPMQ_BROKER_DATA_DIR": "data"}
SERVICES = [run_broker, run_proxy, run_nameserver]


@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_the_defaults_are_complete(service: click.Command) -> None:
    done = CliRunner().invoke(service, ["--check-config"], env=NEEDED)
    assert (done.exit_code, done.output) == (0, "The configuration is complete.\n")


@pytest.mark.parametrize(
    ("service", "env", "says"),
    [
        (run_broker, {"SHARDS": "0"}, "POPMQ_BROKER_SHARDS must be a number from 1 to 64"),
        (run_broker, {"SHARDS": "2", "PORT": "65535"}, "shard 1 has no port"),
        (run_broker, {"REPLICA": "r1"}, "a replica needs POPMQ_BROKER_REGISTER"),
        (run_broker, {"REPLICA": "r1", "SHARDS": "2"}, "a replica has no shards"),
        (run_broker, {"PORT": "many"}, "POPMQ_BROKER_PORT"),
        (run_proxy, {"WORKERS": "65"}, "POPMQ_PROXY_WORKERS must be a number from 1 to 64"),
        (run_proxy, {"WORKERS": "2", "FRONT": "grpcio"}, "needs the front http2"),
        (run_proxy, {"AUTHORIZATION": "true"}, "POPMQ_PROXY_AUTHENTICATION=true too"),
        (run_proxy, {"AUTHENTICATION": "true", "HOST": "0.0.0.0"}, "POPMQ_PROXY_LINK_SECRET_FILE"),
    ],
)
def test_what_would_not_start_is_refused(
    service: click.Command, env: dict[str, str], says: str
) -> None:
    prefix = f"POPMQ_{str(service.name).upper()}_"
    given = {prefix + name: value for name, value in env.items()}
    done = CliRunner().invoke(service, ["--check-config"], env=NEEDED | given)
    assert done.exit_code == 2, done.output
    assert says in done.output
