"""A follower fetches from its primary, until the register names another or the replica stops."""

import asyncio
from contextlib import suppress
from typing import Any

from popmq_broker.clients.register.register import Seen
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication import register_watch
from popmq_broker.engine.replication.follow import Here, Reopen, greet
from popmq_broker.engine.replication.replica_parts import ReplicaParts
from popmq_broker.engine.replication.warm_state import WarmState
from popmq_common.errors import PopMQError, ReplicaDiverged


async def follow_on(
    parts: ReplicaParts,
    here: Here,
    record: GroupRecord,
    warm: WarmState,
    seen: Seen,
    stopping: asyncio.Event,
) -> None:
    """Returns when it is time for another look at the register; then the store is closed if its
    directory was changed, or if the replica stops. Raises `ReplicaDiverged`, and what is a bug."""
    store = warm.store
    fetching = asyncio.create_task(_fetch(parts, here, record, warm, stopping), name="fetching")
    watching = asyncio.create_task(
        register_watch.until_changed(parts, record, seen), name="register"
    )
    told = asyncio.create_task(stopping.wait(), name="stop")
    tasks: tuple[asyncio.Task[Any], ...] = (fetching, watching, told)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if stopping.is_set() and not store.closed:
        await store.close()
        return
    if not fetching.cancelled():
        await _fetching_ended(here, fetching.exception())


async def _fetch(
    parts: ReplicaParts,
    here: Here,
    record: GroupRecord,
    warm: WarmState,
    stopping: asyncio.Event,
) -> None:
    connection = await parts.connect(record.address)
    try:
        follow = await greet(here, record, warm.store, connection)
        try:
            await follow.run(warm.keep)
        finally:
            if stopping.is_set():
                with suppress(PopMQError):
                    await follow.leave()
    finally:
        connection.close()


async def _fetching_ended(here: Here, failed: BaseException | None) -> None:
    for one in _leaves(failed):
        if isinstance(one, ReplicaDiverged) or not isinstance(one, (PopMQError, OSError, Reopen)):
            raise one
        if not isinstance(one, Reopen):
            here.log.warning("replica.fetch_failed", reason=str(one))
            await asyncio.sleep(register_watch.AGAIN_S)


def _leaves(failed: BaseException | None) -> list[BaseException]:
    if failed is None:
        return []
    if isinstance(failed, BaseExceptionGroup):
        return [leaf for one in failed.exceptions for leaf in _leaves(one)]
    return [failed]
