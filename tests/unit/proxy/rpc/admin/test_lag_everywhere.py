"""A group's lag is counted at every broker of its topics, also where it has never received."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from popmq_broker.metrics import BrokerCollector
from popmq_internal.v1 import link_pb2 as link

FIGURES = ("popmq_consumer_ready_messages", "popmq_consumer_lag_messages")


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[EngineDriver]]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    yield [first, second]
    second.close()
    first.close()


def shown(engine: EngineDriver) -> list[float | None]:
    """READY and lag of the group, as Prometheus gets them; None: there is no row."""
    families = {family.name: family for family in BrokerCollector(engine.broker).collect()}
    found: list[float | None] = []
    for name in FIGURES:
        rows = {
            (sample.labels["consumer_group"], sample.labels["topic"]): sample.value
            for sample in families[name].samples
        }
        found.append(rows.get((GROUP, TOPIC)))
    return found


@pytest.mark.parametrize("start", ["LAST", "FIRST"])
def test_what_waits_at_the_other_broker_is_shown(engines: list[EngineDriver], start: str) -> None:
    """One empty receive while the other broker is away; it hears of the start when it is back, and
    nobody asks it for messages."""
    for engine in engines:
        engine.make(queues=2, start=start)
    assert shown(engines[1]) == [None, None]
    away = {"broker-b"}
    proxy = ProxyDriver(*engines, away=away)
    assert proxy.receive() == []
    away.clear()
    proxy.run(proxy.upstream.starts.pay())
    assert [shown(engine) for engine in engines] == [[0, 0], [0, 0]]
    for number in range(7):
        engines[1].send(f"{number}")
    assert [shown(engine) for engine in engines] == [[0, 0], [7, 7]]
    engines[1].restart()
    assert shown(engines[1]) == [7, 7]


def test_what_waits_in_a_topic_that_came_after_the_group_had_started(
    engines: list[EngineDriver],
) -> None:
    """As when a topic is spread to a broker that was added: nobody has asked there yet."""
    engine = engines[1]
    group = link.GroupConfig(name=GROUP, max_attempts=16, consume_from="LAST")
    engine.call(put_group=link.PutGroup(group=group))
    now_ms = engine.clock.now_ms()
    engine.call(fix_start=link.FixStart(group=GROUP, topic=TOPIC, at_ms=now_ms, is_now=True))
    engine.make(queues=2, start="LAST")
    for number in range(7):
        engine.send(f"{number}")
    assert shown(engine) == [7, 7]
