"""A broker stays registered: what it says to a nameserver, how often, and what it logs of it."""

import asyncio
from typing import Any

import pytest

from popmq_broker.engine.catalog.register import AGAIN_S, HEARTBEAT_S, RETRY_S, Registrar
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns


class Nameserver:
    """One whose answers are written down before: True, False, or None for no answer."""

    def __init__(self, *answers: bool | None) -> None:
        self.calls: list[str] = []
        self.versions: list[int] = []
        self.updates: list[tuple[list[str], list[str]]] = []
        self.held: dict[int, asyncio.Event] = {}
        self._answers = list(answers)

    def _answer(self, call: str) -> bool:
        self.calls.append(call)
        answer = self._answers.pop(0)
        if answer is None:
            raise ConnectionError("no answer")
        return answer

    async def register(self, request: ns.RegisterRequest) -> bool:
        if request.broker.version in self.held:
            await self.held[request.broker.version].wait()
        self.versions.append(request.broker.version)
        return self._answer("register")

    async def update(self, request: ns.UpdateRequest) -> bool:
        self.versions.append(request.broker.version)
        self.updates.append(([topic.name for topic in request.topics], list(request.gone)))
        return self._answer("update")

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool:
        return self._answer("heartbeat")

    async def unregister(self, broker: ns.BrokerInfo) -> None:
        self._answer("unregister")


class Topics:
    """Each version has a topic more, `forgotten` ones are not told one by one."""

    version = 1
    forgotten = 0

    def everything(self) -> list[link.TopicConfig]:
        return [link.TopicConfig(name=f"t{i}") for i in range(self.version)]

    def since(self, version: int) -> tuple[list[link.TopicConfig], list[str]] | None:
        if version < self.forgotten:
            return None
        return self.everything()[version:], [f"gone{self.version}"]


class Lines:
    """A log that keeps the names of its events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def warning(self, event: str, **fields: object) -> None:
        self.events.append(event)

    error = warning


class Enough(Exception):
    """The script has ended."""


async def pauses(registrar: Registrar, count: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let it run without waiting; how long it would have waited after each call."""
    waited: list[float] = []

    async def rest(pause_s: float) -> None:
        waited.append(pause_s)
        if len(waited) == count:
            raise Enough

    monkeypatch.setattr(registrar, "_rest", rest)
    with pytest.raises(Enough):
        await registrar.run()
    return waited


def registrar(
    nameserver: Nameserver, topics: Topics | None = None, lines: Lines | None = None
) -> Registrar:
    info = ns.BrokerInfo(name="b", epoch_ms=1)
    log: Any = lines or Lines()
    return Registrar(nameserver, info, topics or Topics(), log)


async def test_one_registration_then_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    nameserver = Nameserver(True, True, True)
    assert await pauses(registrar(nameserver), 3, monkeypatch) == [HEARTBEAT_S] * 3
    assert nameserver.calls == ["register", "heartbeat", "heartbeat"]


async def test_where_it_is_unknown_it_registers_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nameserver = Nameserver(True, False, True)
    waited = await pauses(registrar(nameserver), 3, monkeypatch)
    assert nameserver.calls == ["register", "heartbeat", "register"]
    assert waited == [HEARTBEAT_S, AGAIN_S, HEARTBEAT_S]


async def test_a_refused_process_does_not_insist_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nameserver = Nameserver(False, False, False, False, True)
    lines = Lines()
    waited = await pauses(registrar(nameserver, lines=lines), 5, monkeypatch)
    assert waited == [HEARTBEAT_S] * 5
    assert lines.events == ["register.refused", "register.accepted"]


async def test_a_nameserver_that_does_not_answer_is_a_line_and_not_one_per_heartbeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nameserver = Nameserver(True, None, None, None, True)
    lines = Lines()
    waited = await pauses(registrar(nameserver, lines=lines), 5, monkeypatch)
    assert nameserver.calls == ["register", "heartbeat", "register", "register", "register"]
    assert waited == [HEARTBEAT_S, RETRY_S, RETRY_S, RETRY_S, HEARTBEAT_S]
    assert lines.events == ["nameserver.lost", "nameserver.reached"]


async def test_changed_topics_are_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics()
    nameserver = Nameserver(True, True)
    running = registrar(nameserver, topics)
    await pauses(running, 1, monkeypatch)
    topics.version = 2
    await pauses(running, 1, monkeypatch)
    assert nameserver.versions == [1, 2]
    assert nameserver.calls == ["register", "update"]
    assert nameserver.updates == [(["t1"], ["gone2"])]


async def test_a_nameserver_that_does_not_know_what_changed_is_told_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics()
    nameserver = Nameserver(True, False, True, True)
    running = registrar(nameserver, topics)
    await pauses(running, 1, monkeypatch)
    topics.version = 2
    await pauses(running, 1, monkeypatch)
    topics.version = topics.forgotten = 3
    await pauses(running, 1, monkeypatch)
    assert nameserver.calls == ["register", "update", "register", "register"]


async def test_after_an_unanswered_change_everything_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody knows what the nameserver has."""
    topics = Topics()
    nameserver = Nameserver(True, None, True)
    running = registrar(nameserver, topics)
    await pauses(running, 1, monkeypatch)
    topics.version = 2
    await running.announce()
    await pauses(running, 1, monkeypatch)
    assert nameserver.calls == ["register", "update", "register"]


async def test_changes_while_the_nameserver_is_told_are_told_together() -> None:
    topics = Topics()
    nameserver = Nameserver(True, True)
    slow = nameserver.held[1] = asyncio.Event()
    running = registrar(nameserver, topics)
    waiting = [asyncio.create_task(running.announce())]
    await asyncio.sleep(0.01)
    for version in range(2, 50):
        topics.version = version
        waiting.append(asyncio.create_task(running.announce()))
    await asyncio.sleep(0.01)
    slow.set()
    await asyncio.gather(*waiting)
    assert nameserver.versions == [1, 49]


async def test_registrations_at_a_time_arrive_in_the_order_of_the_topics() -> None:
    topics = Topics()
    nameserver = Nameserver(True, True)
    slow = nameserver.held[1] = asyncio.Event()
    running = registrar(nameserver, topics)
    first = asyncio.create_task(running.announce())
    await asyncio.sleep(0.01)
    topics.version = 2
    second = asyncio.create_task(running.announce())
    await asyncio.sleep(0.01)
    slow.set()
    await asyncio.gather(first, second)
    assert nameserver.versions == [1, 2]


async def test_unregistering_at_a_nameserver_that_is_gone_is_no_error() -> None:
    nameserver = Nameserver(None)
    await registrar(nameserver).stop()
    assert nameserver.calls == ["unregister"]


async def test_who_asks_in_the_moment_in_which_a_call_ends_begins_another_one() -> None:
    """It must not take the one that has ended for the one that tells of its change."""
    topics = Topics()
    nameserver = Nameserver(*[True] * 50)
    running = registrar(nameserver, topics)

    async def change_and_announce(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        topics.version += 1
        wanted = topics.version
        await running.announce()
        assert nameserver.versions[-1] >= wanted

    async with asyncio.timeout(10):
        await asyncio.gather(*(change_and_announce(turns) for turns in range(20)))
