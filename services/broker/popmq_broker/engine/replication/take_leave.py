"""A primary that stops has handed over: its successor learns that this replica stops.

    name a successor in the register ──► it begins its epoch ──► hello ──► "leaving"

It is a member of the set in sync, so without this nothing would be committed until it had been
silent for lag_ms. It leaves as any follower does, and its successor decides whether it may: a
record that left it out at once would count on members that may have died a moment ago.
"""

import asyncio
from typing import Final

from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication import register_watch
from popmq_broker.engine.replication.follow import LEAVE_S, Here, say_hello
from popmq_broker.engine.replication.replica_parts import ReplicaParts
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.errors import PopMQError
from popmq_internal.v1 import link_pb2 as link

LEAVE_WITHIN_S: Final = 3.0
"""How long a replica that stops waits for its successor; then it has to be missed."""
AGAIN_S: Final = 0.05


async def take_leave(parts: ReplicaParts, here: Here, store: ReplicaStore, epoch: int) -> bool:
    """`epoch`: the own one. Whether the successor knows that this replica stops."""
    try:
        async with asyncio.timeout(LEAVE_WITHIN_S):
            while True:
                try:
                    record = await _successor(parts, epoch)
                    if record is not None:
                        await _leave(parts, here, store, record)
                        return True
                except (PopMQError, OSError) as failed:  # it does not lead yet, for example
                    here.log.debug("replica.cannot_leave", reason=str(failed))
                await asyncio.sleep(AGAIN_S)
    except TimeoutError:
        return False


async def _successor(parts: ReplicaParts, epoch: int) -> GroupRecord | None:
    """The record of a primary's epoch; nobody leads in the one that names it."""
    record = register_watch.decoded(await parts.register.read(), parts.name)
    if record is None or record.primary == parts.replica or record.epoch < epoch + 2:
        return None
    return record


async def _leave(parts: ReplicaParts, here: Here, store: ReplicaStore, record: GroupRecord) -> None:
    connection = await parts.connect(record.address)
    try:
        reply = await say_hello(here, record, store, connection)
        ack = link.ReplicaAck(
            replica=here.me.replica,
            session=reply.session,
            epoch=record.epoch,
            durable_end=0,
            leaving=True,
        )
        await connection.call(link.Call(replica_ack=ack), LEAVE_S)
    finally:
        connection.close()
