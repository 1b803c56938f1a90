"""What a broker tells who looks at the whole cluster."""

import pytest
from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_admin.v1 import admin_pb2 as admin
from popmq_broker.core.catalog.proxies import SILENT_MS, Proxies
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def driver(driver: EngineDriver) -> EngineDriver:
    driver.make()
    return driver


def figures(driver: EngineDriver) -> link.FiguresReply:
    return driver.call(figures=link.Figures()).figures


def test_messages_are_counted_where_they_are(driver: EngineDriver) -> None:
    for body in "abcd":
        driver.send(body)
    handles = [message.handle for message in driver.pop(3)]
    driver.ack(handles[0])
    driver.nack(handles[1], delay_ms=60_000)
    found = figures(driver)
    assert (found.stored, found.handed_out, found.acked) == (4, 3, 1)
    assert [(one.topic, one.stored) for one in found.topics] == [(TOPIC, 4)]
    (group,) = found.groups
    assert (group.group, group.topic) == (GROUP, TOPIC)
    assert (group.ready, group.in_flight, group.delayed, group.blocked) == (1, 1, 1, 0)
    assert (group.handed_out, group.acked, group.unaccounted) == (3, 1, 0)
    assert group.last_receive_ms == driver.clock.now_ms()
    driver.advance(60_000)  # both came again: copies, counted with their topic
    (group,) = figures(driver).groups
    assert (group.ready, group.in_flight, group.delayed) == (3, 0, 0)


def test_more_rows_than_are_told_are_counted(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("popmq_broker.engine.inspect.figures.ROWS_MAX", 2)
    for i in range(5):
        driver.broker.state.runtime.stats.sent[f"t{i}"] = i
    found = figures(driver)
    assert [one.topic for one in found.topics] == ["t4", "t3"]
    assert found.topics_left_out == 3


def test_a_proxy_is_there_until_it_is_silent(driver: EngineDriver) -> None:
    driver.call(proxy_here=link.ProxyFigures(id="p", clients=7))
    assert [(one.id, one.clients) for one in figures(driver).proxies] == [("p", 7)]
    driver.call(proxy_here=link.ProxyFigures(id="p", clients=8))
    driver.advance(SILENT_MS)
    assert [one.clients for one in figures(driver).proxies] == [8]
    driver.advance(1)
    assert not figures(driver).proxies


def test_the_table_of_proxies_is_bounded() -> None:
    proxies = Proxies(count_max=2)
    for name in "abca":
        proxies.heard(link.ProxyFigures(id=name), 0)
    assert [one.id for one in proxies.alive(0)] == ["a", "c"]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (link.FiguresReply, admin.BrokerFigures),
        (link.TopicFigures, admin.TopicFigures),
        (link.GroupFigures, admin.GroupFigures),
        (link.ProxyFigures, admin.ProxyFigures),
    ],
)
def test_a_proxy_may_pass_the_bytes_on(theirs: type, ours: type) -> None:
    fields = [
        {(one.number, one.name, one.type, one.is_repeated) for one in kind.DESCRIPTOR.fields}  # type: ignore[attr-defined]
        for kind in (theirs, ours)
    ]
    assert fields[0] == fields[1]
