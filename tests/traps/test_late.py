"""Does a message reach a consumer that waits for it at once?"""

import time
from collections.abc import Iterable
from itertools import product

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from harness.broker import EngineDriver
from harness.broker_calls import pop_body
from harness.proxy import GROUP, TOPIC, ProxyDriver
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import IllegalPollingTime
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.validate import poll_ms

ANY_MS = st.none() | st.integers(-(2**63), 2**63 - 1)
POLL_MAX_MS = 20_000


def test_t33_a_revived_message_wakes_a_waiting_poll_at_once(driver: EngineDriver) -> None:
    driver.make()
    driver.send("again")
    driver.pop(invisible_ms=10_000)
    request = pop_body(1, 10_000)["pop"]
    request.poll_ms = 15_000
    poll = driver.start(pop=request)
    driver.clock.advance(10_000)

    async def revive_and_wait() -> tuple[link.Reply, float]:
        assert await driver.broker.revive.revive_due() == 1
        began_s = time.perf_counter()
        return await poll, time.perf_counter() - began_s

    reply, waited_s = driver.run(revive_and_wait())
    assert len(reply.pop.messages) == 1
    assert waited_s < 0.1


def _odd_durations() -> Iterable[Duration | None]:
    yield None
    for seconds in (0, -1, 3_000_000_000):
        yield Duration(seconds=seconds)


@pytest.mark.parametrize(
    ("poll", "deadline_s"), [*product(_odd_durations(), [None, 0.5, 10.0, 1e12])], ids=str
)
def test_t35_a_message_comes_whatever_the_request_says_of_time(
    proxy: ProxyDriver, poll: Duration | None, deadline_s: float | None
) -> None:
    proxy.send(b"without any time")
    proxy.send(b"born before there was time", born_timestamp=Timestamp())
    proxy.send(b"born tomorrow", born_timestamp=Timestamp(seconds=5_000_000_000))
    until_s = None if deadline_s is None else time.monotonic() + deadline_s
    proxy.context = proxy.context._replace(deadline_s=until_s)
    request = service.ReceiveMessageRequest(
        group=GROUP, message_queue=v2.MessageQueue(topic=TOPIC), batch_size=8
    )
    if poll is not None:
        request.long_polling_timeout.CopyFrom(poll)
    found = proxy.receive_as_is(request)
    assert sum(response.HasField("message") for response in found) == 3


@given(asked=ANY_MS, own=ANY_MS, remaining=ANY_MS)
def test_t35_a_poll_is_never_held_too_long(
    asked: int | None, own: int | None, remaining: int | None
) -> None:
    """Neither longer than allowed nor than the caller waits; it may be told that this is none."""
    try:
        held_ms = poll_ms(asked, own, remaining, POLL_MAX_MS)
    except IllegalPollingTime:
        assert remaining is not None
        assert remaining < 100
        return
    assert held_ms <= POLL_MAX_MS
    assert remaining is None or held_ms < remaining


def test_t42_a_receive_without_a_deadline_waits_as_long_as_polls_may(
    driver: EngineDriver,
) -> None:
    driver.make()
    proxy = ProxyDriver(driver, poll_ms_max=50)
    assert proxy.context.deadline_s is None
    request = service.ReceiveMessageRequest(
        group=GROUP, message_queue=v2.MessageQueue(topic=TOPIC), batch_size=8
    )
    began_s = time.perf_counter()
    found = proxy.receive_as_is(request)
    # an event loop counts in whole milliseconds and may wake up one early
    assert 0.045 <= time.perf_counter() - began_s < 1
    assert found[0].status.code == v2.MESSAGE_NOT_FOUND


def test_t43_a_poll_as_long_as_its_deadline_ends_before_it_with_an_answer(
    proxy: ProxyDriver,
) -> None:
    began_s = time.monotonic()
    proxy.context = proxy.context._replace(deadline_s=began_s + 0.5)
    (nothing, _) = proxy.responses(long_polling_timeout={"seconds": 20})
    assert nothing.status.code == v2.MESSAGE_NOT_FOUND
    assert 0.2 < time.monotonic() - began_s < 0.5


def test_t43_a_deadline_that_is_all_but_over_is_told_with_the_time_that_is_left(
    proxy: ProxyDriver,
) -> None:
    with pytest.raises(IllegalPollingTime, match="99 ms away"):
        poll_ms(1_000, None, 99, POLL_MAX_MS)
    proxy.context = proxy.context._replace(deadline_s=time.monotonic() + 0.05)
    (refused,) = proxy.responses(long_polling_timeout={"seconds": 20})
    assert refused.status.code == v2.ILLEGAL_POLLING_TIME
    assert "ms away" in refused.status.message
