"""What every inbox does with keys, policies and counts, seen at the one in memory."""

import asyncio
import logging

import pytest
from unit.sdk.idempotence.made import Clock, message

from popmq import ReceivedMessage
from popmq.idempotence import (
    KeyMissing,
    MemoryInbox,
    OutsideTurn,
    PayloadMismatch,
    WhenMismatch,
    WhenMissing,
    body_path,
)
from popmq.outcome import Reject, Retry


async def nothing(message: ReceivedMessage) -> None:
    pass


async def test_a_duplicate_is_kept_from_the_handler() -> None:
    inbox = MemoryInbox()
    assert await inbox.run(message(), nothing) is True
    assert await inbox.run(message(), nothing) is False
    assert await inbox.run(message("order-2"), nothing) is True
    assert await inbox.run(message(group="shipping"), nothing) is True
    assert inbox.counts.snapshot() == {
        "handled": 3,
        "suppressed": 1,
        "in_progress": 0,
        "key_missing": 0,
        "payload_mismatch": 0,
        "late": 0,
    }


async def test_a_failed_handler_leaves_its_key_free() -> None:
    inbox = MemoryInbox()

    async def fail(message: ReceivedMessage) -> None:
        raise OSError("no connection")

    with pytest.raises(OSError, match="no connection"):
        await inbox.run(message(), fail)
    assert await inbox.run(message(), nothing) is True
    assert (inbox.counts.handled, inbox.counts.suppressed) == (1, 0)


async def test_deliveries_that_overlap() -> None:
    inbox = MemoryInbox(retry_delay_s=7)
    inside = asyncio.Event()

    async def slow(message: ReceivedMessage) -> None:
        inside.set()
        await asyncio.Event().wait()

    first = asyncio.create_task(inbox.run(message(), slow))
    await inside.wait()
    with pytest.raises(Retry, match="another consumer works on 'order-1'") as raised:
        await inbox.run(message(), nothing)
    assert (raised.value.delay_s, raised.value.counted) == (7, False)
    assert inbox.counts.in_progress == 1
    first.cancel()
    await asyncio.wait([first])
    assert await inbox.run(message(), nothing) is True


async def test_by_hand() -> None:
    inbox = MemoryInbox()
    seen = []
    for _ in range(2):
        async with inbox.once(message()) as turn:
            seen.append(turn.first)
            assert inbox.turn is turn
    assert seen == [True, False]
    with pytest.raises(OutsideTurn):
        _ = inbox.turn


async def test_messages_without_a_key() -> None:
    with pytest.raises(KeyMissing):
        await MemoryInbox().run(message(None), nothing)
    with pytest.raises(Reject, match="message 01AB of topic orders, group billing has no key"):
        await MemoryInbox(when_missing=WhenMissing.REJECT).run(message(None), nothing)
    inbox = MemoryInbox(when_missing=WhenMissing.HANDLE)
    assert [await inbox.run(message(None), nothing) for _ in range(2)] == [True, True]
    assert (inbox.counts.key_missing, len(inbox)) == (2, 0)


async def test_a_known_key_with_another_payload() -> None:
    inbox = MemoryInbox()
    await inbox.run(message(body=b"1"), nothing)
    with pytest.raises(PayloadMismatch, match="'order-1' of an earlier one in 'billing'"):
        await inbox.run(message(body=b"2"), nothing)
    assert inbox.counts.payload_mismatch == 1

    inbox = MemoryInbox(when_mismatch=WhenMismatch.REJECT)
    await inbox.run(message(body=b"1"), nothing)
    with pytest.raises(Reject, match="another payload"):
        await inbox.run(message(body=b"2"), nothing)

    inbox = MemoryInbox(when_mismatch=WhenMismatch.SUPPRESS)
    await inbox.run(message(body=b"1"), nothing)
    assert await inbox.run(message(body=b"2"), nothing) is False
    assert inbox.counts.payload_mismatch == 1


async def test_the_payload_may_be_a_part_of_the_body() -> None:
    def amount(found: ReceivedMessage) -> bytes:
        return found.body.split(b",")[0]

    inbox = MemoryInbox(payload=amount)
    await inbox.run(message(body=b"30,sent at 10:00"), nothing)
    assert await inbox.run(message(body=b"30,sent at 10:01"), nothing) is False


async def test_one_group_two_topics_two_scopes() -> None:
    orders = MemoryInbox(scope="orders", key=body_path("id"))
    assert await orders.run(message(body=b'{"id": 1}', group="a"), nothing) is True
    assert await orders.run(message(body=b'{"id": 1}', group="b"), nothing) is False


async def test_keys_are_forgotten_after_the_window() -> None:
    clock = Clock()
    inbox = MemoryInbox(window_s=60, clock=clock)
    await inbox.run(message(), nothing)
    clock.now_s += 59.9
    assert await inbox.run(message(), nothing) is False
    clock.now_s += 0.2
    assert await inbox.run(message(), nothing) is True
    assert inbox.evicted_early == 0


async def test_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    inbox = MemoryInbox(keys_max=3)
    for number in range(10):
        await inbox.run(message(f"order-{number}"), nothing)
        assert len(inbox) <= 3
    assert inbox.evicted_early == 7
    assert "keys_max=3 is too small" in caplog.text
    assert await inbox.run(message("order-9"), nothing) is False


@pytest.mark.parametrize(
    ("window_s", "retention_s", "warned"),
    [
        (72 * 3600, 48 * 3600, None),
        (
            48 * 3600,
            48 * 3600,
            "remembered for 48.0 h, but a message may be redelivered for 52.8 h",
        ),
        (60, 48 * 3600, "remembered for 60 s"),
        (60, None, None),
    ],
)
async def test_a_window_too_short_is_told_at_the_start(
    window_s: float, retention_s: float | None, warned: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    await MemoryInbox(window_s=window_s).start(retention_s)
    assert warned in caplog.text if warned else not caplog.records
