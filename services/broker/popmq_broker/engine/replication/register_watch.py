"""A replica waits until the register's record says something else."""

import asyncio
from contextlib import suppress
from typing import Final

from popmq_broker.clients.register.register import Seen
from popmq_broker.core.replication import election, group_record
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication.replica_parts import ReplicaParts
from popmq_common.errors import RegisterUnreachable

LOOK_S: Final = 1.0
"""How long nothing may change in the register before it is read again."""
AGAIN_S: Final = 0.2
"""After something failed."""


async def until_deposed(parts: ReplicaParts, record: GroupRecord, seen: Seen) -> GroupRecord | None:
    """For a primary: until another one, or a later epoch, stands there; returns what does, None if
    there is no record any more. An unreachable register deposes nobody. `seen` may be from before
    this primary's own swap."""
    while True:
        try:
            seen = await parts.register.wait(seen, LOOK_S)
        except RegisterUnreachable:
            await asyncio.sleep(AGAIN_S)
            continue
        now = decoded(seen, parts.name)
        if is_same(now, record) or (seen.version and now is not None and now.epoch < record.epoch):
            continue
        return now


async def until_changed(parts: ReplicaParts, record: GroupRecord, seen: Seen) -> None:
    """For a follower: until there is another primary, another epoch, or the primary is silent."""
    while True:
        with suppress(RegisterUnreachable):
            seen = await parts.register.wait(seen, LOOK_S)
            if not is_same(decoded(seen, parts.name), record):
                return
            if not election.is_alive(record, record.primary, seen.alive):
                return
            continue
        await asyncio.sleep(AGAIN_S)


def is_same(now: GroupRecord | None, record: GroupRecord) -> bool:
    """Epoch and primary are."""
    return now is not None and (now.epoch, now.primary) == (record.epoch, record.primary)


def decoded(seen: Seen, where: str) -> GroupRecord | None:
    """Raises `RegisterRecordUnreadable`."""
    return group_record.decode(seen.value, where=where) if seen.value is not None else None
