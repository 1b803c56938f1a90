"""deploy/secured.yml as its comment says: messages go through, and no port answers a stranger."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import httpx
import pytest
from compose.cluster import DEPLOY, Cluster, inspect, run, started
from compose.conftest import named_apart
from compose.prometheus import query
from compose.test_prometheus import until
from compose.traffic import RECOVER_S, bodies, receive, send, within_true
from harness.knocking import (
    Comer,
    listeners,
    strangers,
    those_answered,
    with_certificate,
)
from harness.processes import POPMQ
from harness.secured_cluster import PASSWORD, SECURED, open_ports, preparation
from testcontainers.compose import DockerCompose

from popmq import AccessDenied, Client, Credentials, PopMQClientError, Tls

SERVICES, CLIENTS = "broker", "prometheus"
"""Whose certificates are right: one that `ca` signed, and one of `clients-ca`."""
OPENED_BY_SERVICES = re.compile(r"nameserver-\d:9876|broker-\w:(10911|5558)")
PUBLISHED_TO = "127.0.0.1"
CONSOLE_PORT = 8082
TOPIC, GROUP, USER = "orders", "billing", "shop"
pytestmark = [
    pytest.mark.compose,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="keys get other owners: run it as root"),
]


class Port(NamedTuple):
    """One that listens, as it is reached from this machine."""

    name: str
    """SERVICE:PORT, in the container."""
    host: str
    port: int


@dataclass
class Secured:
    cluster: Cluster
    tls: Path
    strangers: list[Comer]

    @property
    def endpoint(self) -> str:
        return f"https://{self.cluster.endpoint}"

    def operate(self, *arguments: str) -> str:
        """What a command of the operator printed."""
        shown = {"ca": "ca.pem", "cert": "operator.pem", "key": "operator.key"}
        files = [f"--tls-{part}={self.tls / name}" for part, name in shown.items()]
        return run(POPMQ, *arguments, "--endpoint", self.endpoint, *files, "--json")

    def client(self, shows: str = "", credentials: Credentials | Literal[False] = False) -> Client:
        certificate, key = self.tls / f"{shows}.pem", self.tls / f"{shows}.key"
        pair = (certificate, key) if shows else (None, None)
        tls = Tls.from_files(ca=self.tls / "ca.pem", certificate=pair[0], key=pair[1])
        return Client(self.endpoint, tls=tls, credentials=credentials)

    def ports(self) -> Iterator[Port]:
        """All that any container listens on, and all that are published."""
        for container in self.cluster.compose.get_containers():
            id, service = str(container.ID), str(container.Service)
            tables = run("docker", "exec", id, "cat", "/proc/net/tcp", "/proc/net/tcp6")
            numbers = {one.port for one in listeners(tables) if not one.is_local}
            networks = inspect(id, ".NetworkSettings.Networks").values()
            for number in numbers:
                for network in networks:
                    yield Port(f"{service}:{number}", network["IPAddress"], number)
            published = inspect(id, ".NetworkSettings.Ports") or {}
            for inside, ends in published.items():
                for end in ends or []:
                    assert end["HostIp"] == PUBLISHED_TO
                    name = f"{service}:{inside.partition('/')[0]}"
                    yield Port(name, end["HostIp"], int(end["HostPort"]))

    def start(self, client_auth: str) -> None:
        """The proxies with this POPMQ_CLIENT_AUTH; the balancer knows them when it returns."""
        os.environ["POPMQ_CLIENT_AUTH"] = client_auth
        self.cluster.up()


def prepared(folder: Path) -> Path:
    """The folder `tls` that the commands of the file's comment make, which end with the start."""
    *commands, start = preparation()
    assert start.endswith("-f deploy/docker-compose.yml -f deploy/secured.yml up --build --wait")
    tls = folder / "tls"
    path = f"{Path(POPMQ).parent}:{os.environ['PATH']}"
    for command in commands:
        there = command.partition("  #")[0].replace("deploy/tls", str(tls))
        run("env", f"PATH={path}", "bash", "-euc", there.replace("HOST", "queue.test"))
    return tls


@pytest.fixture(scope="module")
def secured(docker: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    tls = prepared(folder)
    names = {
        name
        for service in SECURED.values()
        for name in service.get("secrets", [])
        if isinstance(name, str)
    } | {"check.key"}
    files = {name: {"file": str(tls / name)} for name in names}
    elsewhere = folder / "elsewhere.json"  # never the folder that somebody's own cluster has
    elsewhere.write_text(json.dumps({"secrets": files}))
    with pytest.MonkeyPatch.context() as patch:
        named_apart(patch)
        patch.setenv("POPMQ_CLIENT_AUTH", "required")
        compose = DockerCompose(str(DEPLOY), ["docker-compose.yml", "secured.yml", str(elsewhere)])
        try:
            yield Secured(started(compose), tls, strangers(folder / "stranger"))
        finally:
            compose.stop()


@pytest.fixture(scope="module")
def secret(secured: Secured) -> str:
    """Of the user shop, who may send to a topic and receive in a group."""
    secured.operate("topic", "create", TOPIC)
    secured.operate("group", "create", GROUP, "--from", "first")
    made: str = json.loads(secured.operate("user", "create", USER))["secret"]
    both = ["--action", "Pub,Sub", "--decision", "allow"]
    for resource in (f"Topic:{TOPIC}", f"Group:{GROUP}"):
        secured.operate("acl", "create", USER, "--resource", resource, *both)
    return made


def test_it_comes_up_healthy(secured: Secured) -> None:
    found = secured.cluster.compose.get_containers()
    assert len(found) == 11
    health = {str(one.Name): inspect(str(one.ID))["Health"]["Status"] for one in found}
    assert set(health.values()) == {"healthy"}, health


async def test_prometheus_gets_in_with_its_certificate(secured: Secured) -> None:
    async def up() -> bool:
        rows = await query(secured.cluster, "count by (service) (up == 1)")
        found = {row["metric"]["service"]: int(row["value"][1]) for row in rows}
        services = {"nameserver": 2, "broker": 2, "proxy": 2}
        return found == {**services, "balancer": 1, "alertmanager": 1, "sources": 1}

    await until(up)


async def exchange(client: Client, what: str) -> None:
    sent = bodies(what, 8)
    async with client:
        await send(client, TOPIC, sent)
        assert set(await receive(client, TOPIC, GROUP, sent)) >= sent


async def denied(client: Client) -> None:
    async with asyncio.timeout(RECOVER_S), client:
        with pytest.raises(AccessDenied):
            await client.send(TOPIC, b"x")


async def test_a_signed_message_goes_through_it(secured: Secured, secret: str) -> None:
    """Whoever shows a certificate, and who a signature names."""
    await exchange(secured.client("check", Credentials(USER, secret)), "signed")
    await denied(secured.client("check"))
    await denied(secured.client("operator", Credentials(USER, "a-wrong-secret")))


async def test_the_console_shows_a_stranger_its_login_alone(secured: Secured) -> None:
    """It shows the proxies a certificate of its own; what it does is what its visitor may do."""
    base = f"http://127.0.0.1:{secured.cluster.port('console', CONSOLE_PORT)}"
    async with httpx.AsyncClient(base_url=base) as browser:
        for path in ("/", "/topics", "/groups", "/dead-letters", "/cluster", "/access", "/audit"):
            answer = await browser.get(path)
            assert answer.status_code == 303, path
            assert answer.headers["location"].startswith("/login")
        assert (await log_in(browser, "operator", "a-wrong-secret")).status_code == 403
        assert (await log_in(browser, "operator", PASSWORD)).status_code == 303
        assert TOPIC in (await browser.get("/topics")).text


async def log_in(browser: httpx.AsyncClient, user: str, secret: str) -> httpx.Response:
    page = (await browser.get("/login")).text
    (token,) = set(re.findall(r'name="token" value="([0-9a-f]+)"', page))
    return await browser.post("/login", data={"token": token, "user": user, "secret": secret})


def test_no_port_answers_a_stranger_but_those_that_the_page_names(secured: Secured) -> None:
    answered: dict[str, list[str]] = {}
    known = set()
    for port in secured.ports():
        known.add(port.name)
        if found := those_answered(port.host, port.port, secured.strangers):
            answered[port.name] = found
    assert {
        "proxy:8081",
        "proxy:5557",
        "broker-a:10911",
        "broker-a:5558",
        "broker-b:5557",
        "nameserver-1:9876",
        "nameserver-2:5557",
        "balancer:8081",
    } <= known
    assert answered.keys() == open_ports() & known
    assert set(map(tuple, answered.values())) == {("plaintext",)}


def test_each_other_port_answers_the_right_certificate_alone(secured: Secured) -> None:
    for port in secured.ports():
        if port.name in open_ports():
            continue
        right, wrong = SERVICES, CLIENTS
        if not OPENED_BY_SERVICES.fullmatch(port.name):
            right, wrong = wrong, right
        comers = [with_certificate(secured.tls, name) for name in (right, wrong)]
        assert those_answered(port.host, port.port, comers) == [comers[0].what], port.name


async def test_with_optional_certificates_a_signature_lets_in_and_nothing_else(
    secured: Secured, secret: str
) -> None:
    """As official clients need it; who comes over TLS may ask how a proxy is, and no more."""
    secured.start("optional")
    without = next(one for one in secured.strangers if one.tls is not None)

    def proxies() -> list[Port]:
        return [one for one in secured.ports() if one.name in ("proxy:8081", "balancer:8081")]

    def reached() -> bool:
        return all(those_answered(one.host, one.port, [without]) for one in proxies())

    await within_true(reached)
    for port in proxies():
        answered = those_answered(port.host, port.port, secured.strangers)
        assert answered == [without.what], port.name
    await exchange(secured.client(credentials=Credentials(USER, secret)), "without")
    for nobody in (False, Credentials(USER, "a-wrong-secret"), Credentials("nobody", secret)):
        await denied(secured.client(credentials=nobody))
    async with Client(secured.cluster.endpoint, credentials=Credentials(USER, secret)) as plain:
        with pytest.raises(PopMQClientError):
            await plain.send(TOPIC, b"x")
