"""deploy/secured.yml: does each service get the settings that there are, and no key but its own?"""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from popmq_broker.config import BrokerConfig
from popmq_cli.main import main
from popmq_common.process.config import from_env
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.config import ProxyConfig

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SECURED = yaml.safe_load((DEPLOY / "secured.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = SECURED["services"]
BASE = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["services"]
SCRAPES: dict[str, dict[str, Any]] = {
    job["job_name"]: job
    for job in yaml.safe_load((DEPLOY / "monitoring/prometheus-secured.yml").read_text())[
        "scrape_configs"
    ]
}
MOUNTED = "/run/secrets/"
ACCESS = {
    "AUTHENTICATION": "true",
    "AUTHORIZATION": "true",
    "INIT_USER_FILE": f"{MOUNTED}first-user.json",
    "AUDIT_LOG": "-",
}
CONFIGS: dict[str, type[Any]] = {
    "nameserver": NameserverConfig,
    "broker": BrokerConfig,
    "proxy": ProxyConfig,
}


def given(service: dict[str, Any]) -> dict[str, str]:
    """Where each file is mounted → which of `secrets` it is."""
    found = {}
    for one in service["secrets"]:
        source, target = (one, one) if isinstance(one, str) else (one["source"], one["target"])
        found[MOUNTED + target.removeprefix(MOUNTED)] = source
    return found


def test_it_sets_what_popmq_tls_init_says(tmp_path: Path) -> None:
    printed = CliRunner().invoke(main, ["tls", "init", str(tmp_path / "tls"), "--json"]).stdout
    told = json.loads(printed)["services"]
    needed = {"POPMQ_BROKER_DATA_DIR": "/"}
    for name in ("nameserver-1", "nameserver-2", "broker-a", "broker-b", "proxy"):
        kind = name.partition("-")[0]
        environment = dict(SERVICES[name]["environment"])
        if kind == "proxy":
            assert environment["POPMQ_PROXY_TLS_CLIENT_AUTH"] == "${POPMQ_CLIENT_AUTH:-required}"
            environment["POPMQ_PROXY_TLS_CLIENT_AUTH"] = "required"
            access = {name: environment.pop(f"POPMQ_PROXY_{name}") for name in ACCESS}
            assert access == ACCESS
        from_env(CONFIGS[kind], f"POPMQ_{kind.upper()}_", {**environment, **needed})
        metrics = f"POPMQ_{kind.upper()}_METRICS_TLS_"
        shown = {part: environment.pop(metrics + part) for part in ("CERT", "KEY", "CLIENT_CA")}
        assert shown == {
            "CERT": f"{MOUNTED}{kind}.pem",
            "KEY": f"{MOUNTED}{kind}.key",
            "CLIENT_CA": f"{MOUNTED}clients-ca.pem",
        }
        expected = told[kind]["environment"]
        assert environment.keys() == expected.keys()
        for variable, value in expected.items():
            assert environment[variable].rpartition("/")[2] == value.rpartition("/")[2]


def test_each_file_that_is_named_is_mounted_there() -> None:
    for name, service in SERVICES.items():
        assert name in BASE
        text = json.dumps([service.get("environment", {}), service.get("healthcheck", {})])
        if name == "prometheus":
            text += json.dumps(SCRAPES["popmq"]["tls_config"])
        named = {
            MOUNTED + word.partition(" ")[0].partition('"')[0] for word in text.split(MOUNTED)[1:]
        }
        mounted = given(service)
        assert named <= mounted.keys(), name
        assert {path for path in mounted if not path.endswith(".pem.key")} == named
        for source in mounted.values():
            assert SECURED["secrets"][source] == {"file": f"./tls/{source}"}


def test_nobody_gets_a_key_of_another_or_of_an_authority() -> None:
    own = {"nameserver": {"nameserver"}, "broker": {"broker"}, "proxy": {"proxy", "check"}}
    own["prometheus"] = {"prometheus"}
    for name, service in SERVICES.items():
        keys = {source[:-4] for source in given(service).values() if source.endswith(".key")}
        assert keys == own.get(name.partition("-")[0], {"check"}), name


def test_health_checks_have_words_that_the_probe_knows() -> None:
    for name in ("nameserver-1", "broker-a", "proxy"):
        words = SERVICES[name]["healthcheck"]["test"]
        before = BASE[name]["healthcheck"]["test"]
        assert words[: len(before)] == before
        options = [word.partition("=")[0] for word in words[len(before) :]]
        assert options == ["--tls-ca", "--tls-cert", "--tls-key"]


def test_prometheus_asks_the_same_services_with_its_certificate() -> None:
    (mount,) = SERVICES["prometheus"]["volumes"]
    assert mount == "./monitoring/prometheus-secured.yml:/etc/prometheus/prometheus.yml:ro"
    secured = yaml.safe_load((DEPLOY / "monitoring/prometheus-secured.yml").read_text())
    (job,) = (job for job in secured["scrape_configs"] if job["job_name"] == "popmq")
    assert job.pop("scheme") == "https"
    assert job.pop("tls_config").keys() == {"ca_file", "cert_file", "key_file", "server_name"}
    assert secured == yaml.safe_load((DEPLOY / "monitoring/prometheus.yml").read_text())
