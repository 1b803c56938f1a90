"""Acks and nacks of many messages by one handle: what is done, what is refused, and that no lease
of another receive can be reached."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.handle_runs import runs_of
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker.engine.broker import Broker
from popmq_common.records import receipt
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.messages.by_broker import ENTRIES_MAX

OF: dict[str, Any] = {"group": v2.Resource(name=GROUP), "topic": v2.Resource(name=TOPIC)}
INVISIBLE_MS = 10_000


@pytest.fixture
def away() -> set[str]:
    return set()


@pytest.fixture
def proxy(tmp_path: Path, away: set[str]) -> Iterator[ProxyDriver]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    for engine in (first, second):
        engine.make(queues=1)
    yield ProxyDriver(first, second, away=away)
    second.close()
    first.close()


def received(proxy: ProxyDriver, broker: str, count: int) -> list[str]:
    """Handles of messages that are sent and received at once."""
    engine = proxy.engine(broker)
    for i in range(count):
        engine.call(**send_body(f"{broker}-{engine.clock.now_ms()}-{i}"))
    return [one.handle for one in engine.pop(count, INVISIBLE_MS)]


def runs(handles: list[str]) -> list[consumer.RunPart]:
    return [
        consumer.RunPart(receipt_handle=run.handle, queue_offsets=run.queue_offsets)
        for run in runs_of(handles)[0]
    ]


def ack(proxy: ProxyDriver, asked: list[consumer.RunPart]) -> consumer.AckRunsResponse:
    request = consumer.AckRunsRequest(**OF, runs=asked)
    response: consumer.AckRunsResponse = proxy.call("AckRuns", request)
    return response


def nack(proxy: ProxyDriver, asked: list[consumer.RunPart]) -> consumer.NackRunsResponse:
    """Uncounted, for a minute."""
    request = consumer.NackRunsRequest(**OF, runs=asked, kind=consumer.NACK_KIND_UNCOUNTED)
    request.delay.FromSeconds(60)
    response: consumer.NackRunsResponse = proxy.call("NackRuns", request)
    return response


def refused(
    response: consumer.AckRunsResponse | consumer.NackRunsResponse,
) -> list[tuple[int, int, int]]:
    return [(one.run, one.queue_offset, one.status.code) for one in response.refusals]


def held(proxy: ProxyDriver) -> int:
    return sum(
        proxy.engine(name).broker.state.lease_state.table.live_count
        for name in ("broker-a", "broker-b")
    )


def test_all_of_two_brokers_go_in_one_request(proxy: ProxyDriver) -> None:
    asked = runs(received(proxy, "broker-a", 3) + received(proxy, "broker-b", 2))
    assert [list(run.queue_offsets) for run in asked] == [[0, 1, 2], [0, 1]]
    response = ack(proxy, asked)
    assert (response.status.code, refused(response)) == (v2.OK, [])
    assert held(proxy) == 0


def test_some_of_a_run_are_acked_and_the_others_stay_held(proxy: ProxyDriver) -> None:
    (run,) = runs(received(proxy, "broker-a", 4))
    some = consumer.RunPart(receipt_handle=run.receipt_handle, queue_offsets=[1, 3])
    assert ack(proxy, [some]).status.code == v2.OK
    assert held(proxy) == 2
    response = ack(proxy, [run])  # two of them for the second time
    assert (response.status.code, refused(response)) == (v2.OK, [])
    assert held(proxy) == 0


def test_what_is_refused_is_named_and_the_others_are_acked(proxy: ProxyDriver) -> None:
    first = received(proxy, "broker-a", 2)
    proxy.engine("broker-a").change(first[1], 20_000)  # makes another handle
    (run,) = runs(first)
    response = ack(proxy, [run])
    assert response.status.code == v2.MULTIPLE_RESULTS
    assert refused(response) == [(0, 1, v2.INVALID_RECEIPT_HANDLE)]
    assert held(proxy) == 1
    proxy.engine("broker-a").clock.advance(INVISIBLE_MS)
    late = ack(proxy, runs([*first[:1], *received(proxy, "broker-b", 1)]))
    assert (late.status.code, refused(late)) == (v2.OK, [])  # the first one was acked in time


def test_a_handle_reaches_no_message_of_another_receive(proxy: ProxyDriver) -> None:
    """Not even of one in the same millisecond, whose handle has the same time and generation."""
    engine = proxy.engine("broker-a")
    for i in range(4):
        engine.call(**send_body(str(i)))
    mine, theirs = engine.pop(2, INVISIBLE_MS), engine.pop(2, INVISIBLE_MS)
    one, other = receipt.decode(mine[0].handle), receipt.decode(theirs[0].handle)
    assert (one.pop_time_ms, one.generation) == (other.pop_time_ms, other.generation)
    reach = consumer.RunPart(receipt_handle=mine[0].handle, queue_offsets=[0, 1, 2, 3, 99])
    response = ack(proxy, [reach])
    assert [offset for _, offset, _ in refused(response)] == [2, 3, 99]
    assert engine.ack(*(message.handle for message in theirs)) == [1, 1]


def test_a_handle_of_another_group_is_refused_with_all_of_its_run(proxy: ProxyDriver) -> None:
    (run,) = runs(received(proxy, "broker-a", 2))
    wrong = consumer.RunPart(receipt_handle=run.receipt_handle[:-1] + "?", queue_offsets=[0, 1])
    response = ack(proxy, [wrong, run])
    assert response.status.code == v2.MULTIPLE_RESULTS
    assert refused(response) == [(0, i, v2.INVALID_RECEIPT_HANDLE) for i in (0, 1)]
    assert held(proxy) == 0


def test_a_broker_that_is_away_refuses_its_own_alone(proxy: ProxyDriver, away: set[str]) -> None:
    asked = runs(received(proxy, "broker-a", 1) + received(proxy, "broker-b", 2))
    away.add("broker-b")
    response = ack(proxy, asked)
    assert [(run, offset) for run, offset, _ in refused(response)] == [(1, 0), (1, 1)]
    assert held(proxy) == 2


def test_an_older_broker_knows_no_runs(proxy: ProxyDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes over a field that it does not know. The SDK then acks by handles."""
    asked = runs(received(proxy, "broker-a", 2))
    handle = Broker.handle

    async def older(broker: Broker, call: link.Call) -> link.Reply:
        del call.ack.runs[:]
        return await handle(broker, call)

    monkeypatch.setattr(Broker, "handle", older)
    response = ack(proxy, asked)
    assert refused(response) == [(0, i, v2.NOT_IMPLEMENTED) for i in (0, 1)]
    assert held(proxy) == 2


@pytest.mark.parametrize("count", [0, ENTRIES_MAX + 1])
def test_no_message_or_too_many_are_a_bad_request(proxy: ProxyDriver, count: int) -> None:
    (handle,) = received(proxy, "broker-a", 1)
    asked = consumer.RunPart(receipt_handle=handle, queue_offsets=[0] * count)
    response = ack(proxy, [asked])
    assert (response.status.code, refused(response)) == (v2.BAD_REQUEST, [])
    assert held(proxy) == 1


def test_nacks_at_two_brokers_go_in_one_request(proxy: ProxyDriver) -> None:
    asked = runs(received(proxy, "broker-a", 3) + received(proxy, "broker-b", 2))
    ack(proxy, [consumer.RunPart(receipt_handle=asked[1].receipt_handle, queue_offsets=[1])])
    response = nack(proxy, asked)
    assert response.status.code == v2.MULTIPLE_RESULTS
    assert refused(response) == [(1, 1, v2.INVALID_RECEIPT_HANDLE)]  # too late to want it back
    assert "acknowledged" in response.refusals[0].status.message
    assert held(proxy) == 4
    assert len(refused(ack(proxy, asked))) == 4


def test_an_older_broker_nacks_no_runs(proxy: ProxyDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = runs(received(proxy, "broker-a", 2))
    handle = Broker.handle

    async def older(broker: Broker, call: link.Call) -> link.Reply:
        del call.nack.runs[:]
        return await handle(broker, call)

    monkeypatch.setattr(Broker, "handle", older)
    assert refused(nack(proxy, asked)) == [(0, i, v2.NOT_IMPLEMENTED) for i in (0, 1)]


@pytest.mark.parametrize("count", [0, ENTRIES_MAX + 1])
def test_a_nack_of_no_message_or_too_many_is_a_bad_request(proxy: ProxyDriver, count: int) -> None:
    (handle,) = received(proxy, "broker-a", 1)
    response = nack(proxy, [consumer.RunPart(receipt_handle=handle, queue_offsets=[0] * count)])
    assert (response.status.code, refused(response)) == (v2.BAD_REQUEST, [])


def test_a_nack_by_runs_has_a_kind(proxy: ProxyDriver) -> None:
    request = consumer.NackRunsRequest(**OF, runs=runs(received(proxy, "broker-a", 1)))
    response = proxy.call("NackRuns", request)
    assert response.status.code == v2.BAD_REQUEST
    assert "COUNTED" in response.status.message
