"""A broker that a nameserver remembers with another data directory says so until it is accepted."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver

from popmq_internal.v1 import link_pb2 as link

NAME = "broker-a"


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path, name=NAME)
    yield made
    made.close()


def replaced(driver: EngineDriver) -> list[str]:
    return list(driver.call(figures=link.Figures()).figures.replaced_peers)


def accept(driver: EngineDriver, identity: str) -> None:
    peer = link.Peer(name=NAME, identity=identity)
    driver.call(accept_peer=link.AcceptPeer(peer=peer))


def test_it_tells_of_itself_until_it_is_accepted(driver: EngineDriver) -> None:
    """Each registration hears it, also the first one after a restart."""
    for _ in range(2):
        driver.broker.peers.remembered_as("another")
        assert replaced(driver) == [NAME]
        driver.restart()
    driver.broker.peers.remembered_as("another")
    accept(driver, driver.broker.state.catalog_state.identity)
    assert replaced(driver) == []
    driver.restart()
    driver.broker.peers.remembered_as("another")
    assert replaced(driver) == []


def test_what_is_accepted_is_this_directory_and_no_other(driver: EngineDriver) -> None:
    driver.broker.peers.remembered_as("another")
    accept(driver, "another")
    assert replaced(driver) == [NAME]
    accept(driver, driver.broker.state.catalog_state.identity)
    driver.wipe()
    driver.broker.peers.remembered_as("another")
    assert replaced(driver) == [NAME]


def test_a_peer_that_was_told_of_is_known_behind_a_crash(driver: EngineDriver) -> None:
    """Else one that comes back on an empty disk would not be noticed."""
    driver.call(peers=link.Peers(peers=[link.Peer(name="b", identity="x")]))
    for seed in range(5):
        driver.crash(random.Random(seed))
        reply = driver.call(peers=link.Peers(peers=[link.Peer(name="b", identity="fresh")]))
        assert list(reply.peers.replaced) == ["b"]


def test_what_its_peers_are_told_of_each_other_changes_nothing_of_it(
    driver: EngineDriver,
) -> None:
    driver.broker.peers.remembered_as("another")
    told = [link.Peer(name=NAME, identity=driver.broker.state.catalog_state.identity)]
    reply = driver.call(peers=link.Peers(peers=[*told, link.Peer(name="b", identity="x")]))
    assert list(reply.peers.replaced) == [NAME]
