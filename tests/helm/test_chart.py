"""Does each pod start with what the chart gives it, contained and probed?"""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from harness.processes import POPMQ
from helm.chart import (
    CHART,
    COMPOSE,
    DEFAULT,
    EACH,
    EVERYTHING,
    FULL,
    NAMESPACE,
    NEWEST,
    OLDEST,
    ROOT,
    SECURED,
    Thing,
    container,
    env,
    helm,
    pod,
    render,
    workloads,
)

from popmq_common.metrics.metrics_http import SCRAPE_S_MAX
from popmq_proxy.app import DRAIN_S


@pytest.mark.parametrize(
    "settings", [{}, EVERYTHING, SECURED], ids=["default", "everything", "secured"]
)
def test_helm_has_nothing_to_say(settings: dict[str, str]) -> None:
    done = helm("lint", "--strict", str(CHART), settings=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_the_values_of_the_page_are_taken(tmp_path: Path) -> None:
    page = (ROOT / "docs/kubernetes.md").read_text()
    (values,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "values.yaml").write_text(values)
    done = helm("template", "popmq", str(CHART), "-f", str(tmp_path / "values.yaml"))
    assert done.returncode == 0, done.stderr
    broker = workloads([thing for thing in yaml.safe_load_all(done.stdout) if thing])["broker"]
    (claim,) = broker["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "replicated-ssd"
    assert env(broker)["POPMQ_BROKER_RETENTION_MS"] == "86400000"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(broker)["image"] == f"registry.example/popmq:{version}"
    assert f"docker push registry.example/popmq:{version}\n" in page


@EACH
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_it_fits_the_schemas(things: list[Thing], version: str, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    known = [thing for thing in things if thing["kind"] != "ServiceMonitor"]
    file.write_text(yaml.safe_dump_all(known))
    command = [os.environ["KUBERNETES_VALIDATE"], "-k", version, "--strict", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("passed for resource") == len(known)


@EACH
def test_each_service_runs_contained(things: list[Thing]) -> None:
    assert workloads(things).keys() == {"broker", "proxy", "nameserver"}
    for workload in workloads(things).values():
        spec, only = pod(workload), container(workload)
        assert spec["enableServiceLinks"] is False, "POPMQ_PROXY_PORT=tcp://… would come of it"
        assert spec["automountServiceAccountToken"] is False
        assert spec["shareProcessNamespace"], "nobody reaps, and SIGTERM may be ignored"
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == 10001, "deploy/Dockerfile's user"
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        for kind in ("requests", "limits"):
            assert only["resources"][kind].keys() == {"cpu", "memory"}
        mounted = {mount["name"] for mount in only["volumeMounts"]}
        claims = workload["spec"].get("volumeClaimTemplates", [])
        there = [volume["name"] for volume in spec["volumes"]]
        assert mounted == {*there, *(claim["metadata"]["name"] for claim in claims)}


@EACH
def test_each_service_is_probed_where_it_listens(things: list[Thing]) -> None:
    port = {"broker": "HEALTH_PORT", "proxy": "PORT", "nameserver": "PORT"}
    for service, workload in workloads(things).items():
        listens = env(workload)[f"POPMQ_{service.upper()}_{port[service]}"]
        expected = ["python", "-m", "popmq_cli.cluster.probe", f"127.0.0.1:{listens}"]
        command = container(workload)["startupProbe"]["exec"]["command"]
        assert command[: len(expected)] == expected
        assert command[len(expected) :] == probe_options(service, env(workload))
        for probe in ("readinessProbe", "livenessProbe"):
            assert container(workload)[probe]["exec"]["command"] == command
        compose = next(one for name, one in COMPOSE.items() if name.startswith(service))
        assert compose["healthcheck"]["test"][1:] == expected


def probe_options(service: str, given: dict[str, str]) -> list[str]:
    """What a probe needs to get an answer from a service with these variables."""
    if service == "proxy":
        return ["--tls"] if given.get("POPMQ_PROXY_TLS_ONLY") == "true" else []
    begin = {"broker": "POPMQ_BROKER_LINK_TLS_", "nameserver": "POPMQ_NAMESERVER_TLS_"}[service]
    if authority := given.get(f"{begin}CLIENT_CA"):
        files = {"ca": authority, "cert": given[f"{begin}CERT"], "key": given[f"{begin}KEY"]}
        return [f"--tls-{option}={path}" for option, path in files.items()]
    return ["--tls"] if f"{begin}CERT" in given else []


@EACH
def test_a_stop_waits_longer_than_a_drain(things: list[Thing]) -> None:
    for service, workload in workloads(things).items():
        grace_s = pod(workload)["terminationGracePeriodSeconds"]
        before = container(workload).get("lifecycle", {}).get("preStop")
        assert (before is not None) == (service == "proxy"), "clients come in by proxies alone"
        sleeps_s = int(before["exec"]["command"][1]) if before else 0
        assert grace_s > sleeps_s + DRAIN_S + SCRAPE_S_MAX


@EACH
def test_each_service_takes_its_variables(things: list[Thing], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    for service, workload in workloads(things).items():
        given = env(workload)
        files = {name: str(secret) for name in given if name.endswith("SECRET_FILE")}
        tls = {name for name in given if "_TLS_" in name and given[name].startswith("/")}
        for name in tls | files.keys():
            folder = str(Path(given[name]).parent)
            assert folder in [mount["mountPath"] for mount in container(workload)["volumeMounts"]]
        plain = {name: value for name, value in given.items() if name not in tls}
        done = subprocess.run(
            [POPMQ, service, "--check-config"],
            env={"PATH": os.environ["PATH"], **plain, **files},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        known = (ROOT / "docs/configuration.md").read_text()
        assert [name for name in given if f"`{name}`" not in known] == []


@EACH
def test_ports_are_those_of_compose(things: list[Thing]) -> None:
    for service, workload in workloads(things).items():
        compose = next(one for name, one in COMPOSE.items() if name.startswith(service))
        ours = {name: value for name, value in env(workload).items() if name.endswith("PORT")}
        theirs = compose["environment"]
        assert ours == {name: value for name, value in theirs.items() if name.endswith("PORT")}
        assert {int(value) for value in ours.values()} == {
            port["containerPort"] for port in container(workload)["ports"]
        }


@EACH
def test_services_find_each_other(things: list[Thing]) -> None:
    """A pod's own name is known where its StatefulSet names a Service without an address."""
    named = {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == "Service"}
    running = workloads(things)
    for workload in running.values():
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for service in named.values():
        selector = service["spec"]["selector"].items()
        (behind,) = (
            one
            for one in running.values()
            if selector <= one["spec"]["template"]["metadata"]["labels"].items()
        )
        ports = {port["name"] for port in container(behind)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports

    def addresses(service: str, port: int) -> list[str]:
        spec, name = running[service]["spec"], running[service]["metadata"]["name"]
        headless = named[spec["serviceName"]]["spec"]
        assert headless["clusterIP"] == "None"
        assert headless["publishNotReadyAddresses"]
        assert port in [one["port"] for one in headless["ports"]]
        host = f"{spec['serviceName']}.{NAMESPACE}.svc:{port}"
        return [f"{name}-{number}.{host}" for number in range(spec["replicas"])]

    nameservers = ",".join(addresses("nameserver", 9876))
    assert env(running["broker"])["POPMQ_BROKER_NAMESERVERS"] == nameservers
    assert env(running["proxy"])["POPMQ_PROXY_NAMESERVERS"] == nameservers
    assert env(running["broker"])["POPMQ_BROKER_ADVERTISE"] == addresses("broker", 10911)[0]


@EACH
def test_a_broker_keeps_its_name_and_its_volume(things: list[Thing]) -> None:
    broker = workloads(things)["broker"]
    assert broker["kind"] == "StatefulSet"
    (claim,) = broker["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    kept = broker["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert set(kept.values()) == {"Retain"}
    (mount,) = (one for one in container(broker)["volumeMounts"] if one["name"] == "data")
    folder = Path(env(broker)["POPMQ_BROKER_DATA_DIR"])
    assert folder.parent == Path(mount["mountPath"]), "the volume's root is not the broker's own"


@EACH
def test_one_at_a_time_is_taken_away(things: list[Thing]) -> None:
    budgets = [thing["spec"] for thing in things if thing["kind"] == "PodDisruptionBudget"]
    selected = [one["spec"]["selector"] for one in workloads(things).values()]
    assert [one["selector"] in selected for one in budgets] == [True] * 3
    assert {one["maxUnavailable"] for one in budgets} == {1}


def test_only_proxies_are_reached_from_outside() -> None:
    policies = [thing["spec"] for thing in DEFAULT if thing["kind"] == "NetworkPolicy"]
    closed = [one["podSelector"]["matchLabels"] for one in policies]
    running = workloads(DEFAULT)
    for service in ("broker", "nameserver"):
        assert running[service]["spec"]["selector"]["matchLabels"] in closed
    for policy in policies:
        open_to_all = [rule["ports"] for rule in policy["ingress"] if "from" not in rule]
        assert open_to_all == [[{"port": 5557}]]
    outside = [
        thing["metadata"]["name"]
        for thing in DEFAULT
        if thing["kind"] == "Service" and thing["spec"].get("clusterIP") != "None"
    ]
    assert outside == ["popmq"]


@pytest.mark.parametrize("service", ["broker", "proxy", "nameserver"])
def test_one_service_is_upgraded_alone(service: str) -> None:
    """`--set SERVICE.tag` changes its pods, and no others."""
    after = workloads(render({f"{service}.tag": "9.9.9"}))
    for name, workload in workloads(DEFAULT).items():
        same = after[name]["spec"]["template"] == workload["spec"]["template"]
        assert same == (name != service)


def test_figures_have_the_labels_that_the_rules_ask_for() -> None:
    (monitor,) = (thing for thing in FULL if thing["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    set_to = {one["targetLabel"]: one for one in endpoint["relabelings"]}
    assert set_to["job"]["replacement"] == "popmq"
    assert set_to["service"]["sourceLabels"] == [
        "__meta_kubernetes_pod_label_app_kubernetes_io_component"
    ]
    rules = (ROOT / "deploy/monitoring/alerts.yml").read_text()
    asked = set(re.findall(r'up\{job="popmq",service="(\w+)"', rules))
    assert asked
    assert asked <= workloads(FULL).keys()


def test_a_variable_of_another_service_is_refused() -> None:
    settings = {"broker.env.POPMQ_PROXY_PORT": "1"}
    done = helm("template", "popmq", str(CHART), settings=settings)
    assert done.returncode != 0
    assert "broker.env has POPMQ_PROXY_PORT" in done.stderr


def test_a_long_name_of_a_release_is_cut() -> None:
    longest = 63
    for thing in render(release="r" * 53):
        assert len(thing["metadata"]["name"]) + len("-00") <= longest
