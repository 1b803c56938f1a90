"""tls.enabled: does every connection between services get TLS, and does it work with the Secret of
docs/kubernetes.md?"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness.processes import POPMQ, cluster, free_port
from helm.chart import (
    CHART,
    ROOT,
    SECURED,
    SERVICE_TLS,
    WITH_TLS,
    Thing,
    container,
    env,
    helm,
    pod,
    render,
    workloads,
)


@pytest.fixture(scope="module")
def service_tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docs/kubernetes.md says of the Secret, as files; and the link's secret."""
    folder = tmp_path_factory.mktemp("tls")
    page = (ROOT / "docs/kubernetes.md").read_text()
    (hosts,) = re.findall(r"^popmq tls init tls --host (\S+)$", page, re.MULTILINE)
    (named,) = re.findall(r"create secret generic popmq-tls (.*)$", page, re.MULTILINE)
    made = [POPMQ, "tls", "init", str(folder / "tls"), "--host", hosts.strip("'")]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    for key, file in re.findall(r"--from-file=([\w.]+)=(\S+)", named):
        (folder / key).write_bytes((folder / file).read_bytes())
        (folder / key).chmod(0o600)
    return folder


def test_with_tls_services_and_probes_reach_each_other_and_strangers_do_not(
    service_tls: Path, tmp_path: Path
) -> None:
    """The variables and probes of the pods, with the Secret that the page makes."""
    given: dict[str, str] = {}
    for workload in workloads(WITH_TLS).values():
        tls = {name: value for name, value in env(workload).items() if "_TLS_" in name}
        given |= {name: value.replace(SERVICE_TLS, str(service_tls)) for name, value in tls.items()}
    for part in ("CERT", "KEY"):  # of a Secret of its own
        given[f"POPMQ_PROXY_TLS_{part}"] = given[f"POPMQ_PROXY_LINK_TLS_{part}"]
    health = free_port()
    own = {"broker-a": {"POPMQ_BROKER_HEALTH_PORT": str(health)}}
    with cluster(tmp_path, given, brokers=1, proxies=1, own=own) as server:
        ports = {
            "nameserver": server.processes["nameserver"].port,
            "broker": health,
            "proxy": server.processes["proxy-1"].port,
        }
        for service, workload in workloads(WITH_TLS).items():
            *_, target = container(workload)["startupProbe"]["exec"]["command"][:4]
            options = container(workload)["startupProbe"]["exec"]["command"][4:]
            here = [word.replace(SERVICE_TLS, str(service_tls)) for word in options]
            assert target.startswith("127.0.0.1:")
            assert probe(ports[service], *here) == 0
            assert probe(ports[service]) == 3
        there = [f"--tls-ca={service_tls}/ca.crt", "--endpoint", f"https://{server.endpoint}"]
        sent = subprocess.run([POPMQ, "send", "t", "x", *there], capture_output=True, timeout=60)
        assert sent.returncode == 0, sent.stderr


def probe(port: int, *options: str) -> int:
    command = [sys.executable, "-m", "popmq_cli.cluster.probe", f"127.0.0.1:{port}", *options]
    return subprocess.run(command, capture_output=True, timeout=60).returncode


def test_with_tls_no_connection_between_services_is_without() -> None:
    """And each end checks the other's certificate."""
    running = {service: env(workload) for service, workload in workloads(WITH_TLS).items()}
    for service, ends in {
        "nameserver": ["TLS_CERT", "TLS_KEY", "TLS_CLIENT_CA"],
        "broker": ["LINK_TLS_CERT", "LINK_TLS_KEY", "LINK_TLS_CLIENT_CA", "NAMESERVER_TLS_CA"],
        "proxy": ["LINK_TLS_CERT", "LINK_TLS_KEY", "LINK_TLS_CA", "NAMESERVER_TLS_CA"],
    }.items():
        metrics = ["METRICS_TLS_CERT", "METRICS_TLS_KEY", "METRICS_TLS_CLIENT_CA"]
        for name in ends + metrics:
            assert running[service][f"POPMQ_{service.upper()}_{name}"].startswith(SERVICE_TLS)
    mounted = [
        volume["secret"]["secretName"]
        for workload in workloads(WITH_TLS).values()
        for volume in pod(workload)["volumes"]
        if volume["name"] == "service-tls"
    ]
    assert mounted == ["popmq-tls"] * 3


def test_prometheus_shows_the_certificate_if_metrics_ask_for_it() -> None:
    def endpoint(things: list[Thing]) -> Thing:
        (monitor,) = (thing for thing in things if thing["kind"] == "ServiceMonitor")
        (found,) = monitor["spec"]["endpoints"]
        assert isinstance(found, dict)
        return found

    secured = endpoint(WITH_TLS)
    assert secured["scheme"] == "https"
    assert secured["tlsConfig"] == {
        "ca": {"secret": {"name": "popmq-tls", "key": "ca.crt"}},
        "cert": {"secret": {"name": "popmq-tls", "key": "tls.crt"}},
        "keySecret": {"name": "popmq-tls", "key": "tls.key"},
        "serverName": "localhost",
    }
    without = render({**SECURED, "tls.metrics": "false"})
    assert "scheme" not in endpoint(without)
    for workload in workloads(without).values():
        assert [name for name in env(workload) if "METRICS_TLS" in name] == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tls.enabled": "true"}, "needs tls.existingSecret"),
        ({**SECURED, "broker.linkTlsSecret": "link"}, "take away broker.linkTlsSecret"),
        ({**SECURED, "proxy.linkTlsCaSecret": "ca"}, "take away broker.linkTlsSecret"),
    ],
)
def test_tls_that_cannot_be_is_refused(settings: dict[str, str], says: str) -> None:
    done = helm("template", "popmq", str(CHART), settings=settings)
    assert done.returncode != 0
    assert says in done.stderr
