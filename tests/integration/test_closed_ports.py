"""No port of a secured cluster answers without credentials: services as processes, configured as
deploy/secured.yml does it. tests/compose has the same of its containers."""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from harness.knocking import Comer, listening_ports, strangers, those_answered, with_certificate
from harness.processes import Server, cluster, free_port
from harness.secured_cluster import first_user, settings
from integration.served import popmq

from popmq import AccessDenied, Client, Credentials, PopMQClientError, Tls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who listens where")
SERVICES, CLIENTS = "nameserver", "alice"
"""Whose certificates are right: one that `ca` signed, and one of `clients-ca`."""


@dataclass
class Ports:
    """What listens: service → port → whose certificate opens it."""

    server: Server
    tls: Path
    opened_by: dict[str, dict[int, str]]
    strangers: list[Comer]

    def each(self) -> Iterator[tuple[str, int, str]]:
        for service, ports in self.opened_by.items():
            for port, right in ports.items():
                yield service, port, right


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("closed")
    tls = folder / "tls"
    popmq("tls", "init", str(tls))
    popmq("tls", "client", str(tls), CLIENTS)
    first_user(tls)
    metrics = {name: free_port() for name in ("nameserver", "broker-a", "proxy-1")}
    health = free_port()
    own = {
        name: {f"POPMQ_{name.partition('-')[0].upper()}_METRICS_PORT": str(port)}
        for name, port in metrics.items()
    }
    own["broker-a"]["POPMQ_BROKER_HEALTH_PORT"] = str(health)
    with cluster(folder, settings(tls), brokers=1, proxies=1, own=own) as server:
        port = {name: process.port for name, process in server.processes.items()}
        opened_by = {
            "nameserver": {port["nameserver"]: SERVICES},
            "broker-a": {port["broker-a"]: SERVICES, health: SERVICES},
            "proxy-1": {port["proxy-1"]: CLIENTS},
        }
        for name, page in metrics.items():
            opened_by[name][page] = CLIENTS
        yield Ports(server, tls, opened_by, strangers(folder / "stranger"))


def test_each_port_that_a_service_listens_on_is_looked_at(ports: Ports) -> None:
    for name, process in ports.server.processes.items():
        assert process.running is not None
        assert listening_ports(process.running.pid) == ports.opened_by[name].keys(), name


def test_no_port_answers_a_stranger(ports: Ports) -> None:
    for service, port, _ in ports.each():
        assert those_answered("127.0.0.1", port, ports.strangers) == [], service


def test_each_port_answers_the_right_certificate_and_not_that_of_the_other_authority(
    ports: Ports,
) -> None:
    for service, port, right in ports.each():
        wrong = CLIENTS if right == SERVICES else SERVICES
        comers = [with_certificate(ports.tls, name) for name in (right, wrong)]
        assert those_answered("127.0.0.1", port, comers) == [comers[0].what], service


def client(ports: Ports, name: str, credentials: Credentials | Literal[False] = False) -> Client:
    tls = Tls.from_files(
        ca=ports.tls / "ca.pem",
        certificate=ports.tls / f"{name}.pem",
        key=ports.tls / f"{name}.key",
    )
    return Client(f"https://{ports.server.endpoint}", tls=tls, credentials=credentials)


async def test_a_certificate_alone_or_a_wrong_signature_does_nothing(ports: Ports) -> None:
    """alice is no user; with a signature it counts, whosever certificate is shown."""
    operator = client(ports, "operator")
    async with asyncio.timeout(60), operator:
        while True:  # the first user is made when the broker has told that there is none
            try:
                await operator.admin.create_topic("orders")
                break
            except PopMQClientError:
                await asyncio.sleep(0.1)
        assert (await operator.send("orders", b"x")).message_id
    wrong = Credentials("operator", "not-the-password")
    for nobody in (client(ports, CLIENTS), client(ports, "operator", wrong)):
        async with asyncio.timeout(60), nobody:
            with pytest.raises(AccessDenied):
                await nobody.send("orders", b"x")
