"""What a project leaves on the machine, lets in, and keeps to itself."""

import json
import re

import pytest
from compose.cluster import Cluster, inspect, run
from compose.traffic import within_true

pytestmark = [pytest.mark.compose, pytest.mark.timeout(300)]
OPERATORS = {"prometheus", "alertmanager", "console", "grafana"}


def test_no_container_has_a_volume_without_a_name(cluster: Cluster) -> None:
    """`down --volumes` of an earlier version left them, and every upgrade added some."""
    every = cluster.command("ps", "--all", "--quiet").split()
    assert len(every) > len(OPERATORS)
    for container in every:
        names = [
            mount["Name"] for mount in inspect(container, ".Mounts") if mount["Type"] == "volume"
        ]
        assert [name for name in names if re.fullmatch("[0-9a-f]{64}", name)] == []


def test_the_first_start_makes_a_secret_that_all_services_share(cluster: Cluster) -> None:
    services = ["nameserver-1", "nameserver-2", "broker-a", "broker-b", "proxy"]
    containers = [one for service in services for one in cluster.containers(service)]
    (secret,) = {digest(container) for container in containers}
    for container in containers:
        variables = inspect(container, ".Config.Env")
        assert [one for one in variables if one.endswith("_LINK_SECRET_FILE=/secret/link")]
    size, *owner = run(
        "docker", "exec", containers[0], "stat", "-c", "%s %a %u", "/secret/link"
    ).split()
    assert (int(size) >= 32, owner) == (True, ["600", "10001"])
    cluster.command("run", "--rm", "--no-deps", "-T", "link-secret")
    assert digest(containers[0]) == secret


def digest(container: str) -> str:
    return run("docker", "exec", container, "sha256sum", "/secret/link")


def test_letting_clients_in_lets_nobody_look_at_the_figures(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPMQ_BIND", "0.0.0.0")
    services = json.loads(cluster.command("--profile", "grafana", "config", "--format", "json"))[
        "services"
    ]
    bound = {
        name: {port["host_ip"] for port in service["ports"]}
        for name, service in services.items()
        if service.get("ports")
    }
    assert bound.pop("balancer") == {"0.0.0.0"}
    assert bound == {name: {"127.0.0.1"} for name in OPERATORS}
    grafana = services["grafana"]["environment"]
    assert grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["GF_AUTH_DISABLE_LOGIN_FORM"] == "true"


async def test_the_balancer_says_everything_once(cluster: Cluster) -> None:
    (balancer,) = cluster.containers("balancer")
    proxy = cluster.containers("proxy")[-1]
    since = run("docker", "exec", balancer, "date", "+%s").strip()

    def downs() -> list[str]:
        lines = run("sh", "-c", f"docker logs --since {since} {balancer} 2>&1").splitlines()
        down = r"Server proxies/place-\d+ .*(DOWN|MAINT|going)"
        return [line for line in lines if re.search(down, line)]

    run("docker", "stop", proxy)
    try:  # it is out of Docker's DNS for some seconds then
        await within_true(lambda: bool(downs()))
    finally:
        cluster.up()
    told = [re.sub(r"^\[\w+\] +\(\d+\) : ", "", line) for line in downs()]
    assert len(set(told)) == len(told), told
