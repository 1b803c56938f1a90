"""What the inbox and the guards promise in any database; each check gets an empty one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine
from unit.sdk.idempotence.made import Clock, message

from popmq import ReceivedMessage
from popmq.idempotence import (
    Fenced,
    InboxTableMissing,
    OutsideTurn,
    PayloadMismatch,
    RowMissing,
    UnknownState,
    WhenMissing,
)
from popmq.idempotence.fenced_rows import FencedRows
from popmq.idempotence.row_lock import RowLock
from popmq.idempotence.sql import CLEAN_BATCH, SqlInbox
from popmq.idempotence.state_machine import StateMachine
from popmq.idempotence.version import OptimisticVersion
from popmq.outcome import Retry

Check = Callable[[AsyncEngine], Awaitable[None]]
metadata = MetaData()
points = Table("points", metadata, Column("name", String(40)), Column("points", Integer))
trip = Table(
    "trip",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("state", String(40)),
    Column("version", Integer),
    Column("paid", Boolean),
    Column("fence", BigInteger),
)


async def rows(engine: AsyncEngine, table: Table = points) -> int:
    async with engine.connect() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def made(engine: AsyncEngine, **options: object) -> SqlInbox:
    async with engine.begin() as connection:
        await connection.run_sync(metadata.drop_all)
        await connection.run_sync(metadata.create_all)
        new = {"id": "t", "state": "created", "version": 0, "paid": False, "fence": 0}
        await connection.execute(insert(trip).values(new))
    inbox = SqlInbox(engine, **options)  # type: ignore[arg-type]
    async with engine.begin() as connection:
        await connection.run_sync(inbox.table.metadata.drop_all)
    await inbox.create_table()
    return inbox


def crediting(inbox: SqlInbox) -> Callable[[ReceivedMessage], Awaitable[None]]:
    async def credit(message: ReceivedMessage) -> None:
        await inbox.connection.execute(insert(points).values(name="a", points=30))

    return credit


async def the_effect_is_there_once(engine: AsyncEngine) -> None:
    inbox = await made(engine)
    await inbox.start(None)
    credit = crediting(inbox)
    assert [await inbox.run(message(), credit) for _ in range(3)] == [True, False, False]
    assert await rows(engine) == 1
    assert (inbox.counts.handled, inbox.counts.suppressed) == (1, 2)
    other = SqlInbox(engine)  # another process
    assert await other.run(message(), crediting(other)) is False
    with pytest.raises(OutsideTurn):
        _ = inbox.connection


async def an_error_takes_back_effect_and_key(engine: AsyncEngine) -> None:
    inbox = await made(engine)
    credit = crediting(inbox)

    async def fail(message: ReceivedMessage) -> None:
        await credit(message)
        raise OSError("afterwards")

    with pytest.raises(OSError, match="afterwards"):
        await inbox.run(message(), fail)
    assert (await rows(engine), await rows(engine, inbox.table)) == (0, 0)
    assert await inbox.run(message(), credit) is True


async def an_error_of_the_database_is_the_handlers(engine: AsyncEngine) -> None:
    inbox = await made(engine)

    async def fail(message: ReceivedMessage) -> None:
        await inbox.connection.execute(insert(trip).values(id="t"))

    with pytest.raises(IntegrityError):
        await inbox.run(message(), fail)
    assert await rows(engine, inbox.table) == 0


async def an_orm_session_is_in_the_same_transaction(engine: AsyncEngine) -> None:
    inbox = await made(engine)

    async def fail(message: ReceivedMessage) -> None:
        await inbox.session.execute(insert(points).values(name="a", points=1))
        await inbox.session.commit()
        raise OSError("afterwards")

    with pytest.raises(OSError, match="afterwards"):
        await inbox.run(message(), fail)
    assert await rows(engine) == 0
    async with inbox.once(message()):
        await inbox.session.execute(insert(points).values(name="a", points=1))
    assert await rows(engine) == 1


async def of_overlapping_deliveries_one_is_handled(engine: AsyncEngine) -> None:
    inbox = await made(engine)
    credit = crediting(inbox)

    async def deliver() -> bool:
        while True:
            try:
                return await inbox.run(message(), credit)
            except Retry:
                await asyncio.sleep(0.01)

    found = await asyncio.gather(*(deliver() for _ in range(8)))
    assert sorted(found) == [False] * 7 + [True]
    assert await rows(engine) == 1


async def of_overlapping_deliveries_the_first_ones_fail(engine: AsyncEngine) -> None:
    """InnoDB: those that wait deadlock when the first one rolls back."""
    inbox = await made(engine)
    credit = crediting(inbox)
    failures = 3

    async def work(message: ReceivedMessage) -> None:
        nonlocal failures
        await credit(message)
        await asyncio.sleep(0.01)
        if failures:
            failures -= 1
            raise OSError("the first ones fail")

    async def deliver() -> bool:
        while True:
            try:
                return await inbox.run(message(), work)
            except (Retry, OSError):
                await asyncio.sleep(0.01)

    found = await asyncio.gather(*(deliver() for _ in range(8)))
    assert (sorted(found), await rows(engine)) == ([False] * 7 + [True], 1)


async def who_waits_too_long_gets_retry(engine: AsyncEngine) -> None:
    inbox = await made(engine, wait_s=0.05, retry_delay_s=3)
    async with inbox.once(message()) as turn:
        assert turn.first
        with pytest.raises(Retry) as raised:
            await inbox.run(message(), crediting(inbox))
    assert (raised.value.delay_s, raised.value.counted) == (3, False)
    assert inbox.counts.in_progress == 1


async def another_payload_is_an_error(engine: AsyncEngine) -> None:
    inbox = await made(engine)
    await inbox.run(message(body=b"1"), crediting(inbox))
    with pytest.raises(PayloadMismatch):
        await inbox.run(message(body=b"2"), crediting(inbox))
    assert await rows(engine) == 1


async def keys_are_compared_exactly(engine: AsyncEngine) -> None:
    keys = ["order-a", "order-A", "order-a ", "order-ä", "order-a\x00", "订单", "😀", "x" * 1000]
    inbox = await made(engine)
    assert [await inbox.run(message(key), crediting(inbox)) for key in keys] == [True] * len(keys)
    assert [await inbox.run(message(key), crediting(inbox)) for key in keys] == [False] * len(keys)


async def messages_without_key_have_a_transaction_too(engine: AsyncEngine) -> None:
    inbox = await made(engine, when_missing=WhenMissing.HANDLE)
    assert await inbox.run(message(None), crediting(inbox)) is True
    assert (await rows(engine), await rows(engine, inbox.table)) == (1, 0)


async def old_keys_are_deleted_in_batches(engine: AsyncEngine) -> None:
    clock = Clock()
    inbox = await made(engine, window_s=60, clock=clock)
    old = [
        {
            "scope": f"g{number % 3}",
            "message_key": str(number),
            "payload": "",
            "message_id": "",
            "handled_at_ms": int(clock.now_s * 1000),
        }
        for number in range(2 * CLEAN_BATCH + 7)
    ]
    async with engine.begin() as connection:
        await connection.execute(insert(inbox.table), old)
    clock.now_s += 30
    assert await inbox.forget_old() == 0
    await inbox.run(message(), crediting(inbox))
    clock.now_s += 31
    assert await inbox.forget_old(batches_max=1) == CLEAN_BATCH
    assert await inbox.forget_old() == CLEAN_BATCH + 7
    assert await inbox.run(message(), crediting(inbox)) is False


async def a_missing_table_is_told_at_the_start(engine: AsyncEngine) -> None:
    inbox = SqlInbox(engine, table="never_made")
    with pytest.raises(InboxTableMissing, match="'never_made' is missing"):
        await inbox.start(None)


async def a_state_machine_takes_each_step_once(engine: AsyncEngine) -> None:
    await made(engine)
    allowed = {"created": ["assigned", "cancelled"], "assigned": ["departed"]}
    guard = StateMachine(trip, key=trip.c.id, state=trip.c.state, allowed=allowed)

    async def move(to: str, row: str = "t") -> bool:
        async with engine.begin() as connection:
            return await guard.move(connection, row, to, {"version": 5})

    with pytest.raises(Retry, match="is created: what leads to departed has not come"):
        await move("departed")
    assert await move("assigned") is True
    assert await move("assigned") is False
    assert await move("departed") is True
    assert await move("assigned") is False  # overtaken
    assert await move("cancelled") is False  # on another branch
    assert (guard.counts.handled, guard.counts.suppressed, guard.counts.in_progress) == (2, 3, 1)
    with pytest.raises(RowMissing, match="trip has no row 'nobody'"):
        await move("assigned", "nobody")
    with pytest.raises(UnknownState, match="'flying'"):
        await move("flying")


async def a_version_is_changed_once(engine: AsyncEngine) -> None:
    await made(engine)
    guard = OptimisticVersion(trip, key=trip.c.id, version=trip.c.version)

    async def change(expected: int, row: str = "t") -> bool:
        async with engine.begin() as connection:
            return await guard.update(connection, row, expected=expected, values={"paid": True})

    with pytest.raises(Retry, match="has version 0, 1 is to be changed"):
        await change(1)
    assert [await change(0), await change(0), await change(1)] == [True, False, True]
    assert (guard.counts.handled, guard.counts.suppressed, guard.counts.in_progress) == (2, 1, 1)
    with pytest.raises(RowMissing):
        await change(0, "nobody")


async def a_row_is_held_by_one(engine: AsyncEngine) -> None:
    await made(engine)
    guard = RowLock(engine, trip, key=trip.c.id, wait_s=5)
    effects = 0

    async def pay() -> None:
        nonlocal effects
        async with guard.hold("t") as held:
            if not held.row.paid:
                await asyncio.sleep(0.01)
                effects += 1
                paid = update(trip).where(trip.c.id == "t").values(paid=True)
                await held.connection.execute(paid)

    await asyncio.gather(*(pay() for _ in range(4)))
    assert (effects, guard.counts.handled) == (1, 4)
    hasty = RowLock(engine, trip, key=trip.c.id, wait_s=0.05)
    async with guard.hold("t"):
        with pytest.raises(Retry, match="trip 't' is held by another transaction"):
            async with hasty.hold("t"):
                pass
    assert hasty.counts.in_progress == 1
    with pytest.raises(RowMissing):
        async with guard.hold("nobody"):
            pass


async def an_older_token_is_fenced(engine: AsyncEngine) -> None:
    await made(engine)
    guard = FencedRows(trip, key=trip.c.id, fence=trip.c.fence)

    async def claim(token: int) -> bool:
        async with engine.begin() as connection:
            return bool((await guard.claim(connection, "t", token)).paid)

    async def write(token: int) -> None:
        async with engine.begin() as connection:
            await connection.execute(insert(points).values(name="a", points=token))
            await guard.write(connection, "t", token, {"paid": True})

    assert await claim(41) is False
    assert await claim(42) is False  # 41 was too slow; both have seen that it is not paid
    with pytest.raises(Fenced, match="row 't' was claimed with a newer token than 41"):
        await write(41)
    assert await rows(engine) == 0
    await write(42)
    assert await rows(engine) == 1
    with pytest.raises(Fenced):
        await claim(41)
    assert await claim(43) is True
    assert (guard.counts.handled, guard.counts.late) == (1, 2)


CHECKS: list[Check] = [
    the_effect_is_there_once,
    an_error_takes_back_effect_and_key,
    an_error_of_the_database_is_the_handlers,
    an_orm_session_is_in_the_same_transaction,
    of_overlapping_deliveries_one_is_handled,
    of_overlapping_deliveries_the_first_ones_fail,
    who_waits_too_long_gets_retry,
    another_payload_is_an_error,
    keys_are_compared_exactly,
    messages_without_key_have_a_transaction_too,
    old_keys_are_deleted_in_batches,
    a_missing_table_is_told_at_the_start,
    a_state_machine_takes_each_step_once,
    a_version_is_changed_once,
    a_row_is_held_by_one,
    an_older_token_is_fenced,
]
