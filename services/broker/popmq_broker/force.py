"""What `popmq replica force` does: an operator makes a replica primary. It needs the register and
that replica's link, no proxy and no nameserver.

    look    the register's record, and what the replica says of itself
    force   compare and swap of that record; the replica sees it and begins an epoch
    follow  until the replica leads
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from popmq_broker.clients import replica_link
from popmq_broker.clients.register.register import Register, Seen
from popmq_broker.config import BrokerConfig
from popmq_broker.core.replication import group_record, unclean
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.core.replication.unclean import Survivor
from popmq_broker.group_register import register_of
from popmq_broker.replica_tls import replica_files
from popmq_common.errors import NotForced, PopMQError
from popmq_common.link import link_secret
from popmq_common.process import logs
from popmq_common.tls.service_ends import connecting_context
from popmq_internal.v1 import link_pb2 as link

CALL_S: Final = 3.0
LEADS_S: Final = 15.0
"""How long the replica may take to see that it is primary."""
LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What there is, before anything is changed."""

    seen: Seen
    record: GroupRecord
    chosen: Survivor

    @property
    def loses_nothing(self) -> bool:
        return unclean.loses_nothing(self.record, self.chosen)


class Forcing:
    def __init__(self, config: BrokerConfig, register: Register) -> None:
        """`config`: as the replica's own; its `advertise` is where the replica's link is."""
        self._config = config
        self._register = register

    async def look(self) -> Outlook:
        """Raises `NotForced`, `RegisterUnreachable`, `RegisterRecordUnreadable`, and what a call
        to the replica raises."""
        config = self._config
        seen = await self._register.read()
        if seen.value is None:
            reason = f"the register has no group {config.cluster}/{config.name}"
            raise NotForced(replica=config.replica, reason=reason)
        record = group_record.decode(seen.value, where=config.name)
        found = await self._ask()
        if found.replica != config.replica:
            reason = f"replica {found.replica or 'without a name'} answers at {config.advertise}"
            raise NotForced(replica=config.replica, reason=reason)
        chosen = Survivor(
            replica=found.replica,
            incarnation=found.incarnation,
            address=config.advertise,
            log_end=found.log_end,
            commit_point=found.commit_point,
            last_stored_ms=found.last_stored_ms,
        )
        reason = unclean.objection(record, chosen, seen.alive) or ""
        if reason:
            raise NotForced(replica=config.replica, reason=reason)
        return Outlook(seen=seen, record=record, chosen=chosen)

    async def force(self, outlook: Outlook, min_in_sync: int | None, now_ms: int) -> GroupRecord:
        """The register's record from now on. Raises `NotForced` when somebody changed it since it
        was looked at, `RegisterUnreachable`."""
        record = unclean.forced(outlook.record, outlook.chosen, min_in_sync, now_ms)
        value = group_record.encode(record)
        if await self._register.swap(outlook.seen.version, value) is None:
            reason = "the register has changed meanwhile; look again"
            raise NotForced(replica=self._config.replica, reason=reason)
        return record

    async def follow(self, record: GroupRecord) -> str:
        """The replica's role, as soon as it leads; at the latest after `LEADS_S`."""
        role, end_s = "silent", time.monotonic() + LEADS_S
        while time.monotonic() < end_s:
            try:
                found = await self._ask()
            except PopMQError:
                role = "silent"
            else:
                role = found.role
                if role == "primary" and found.epoch > record.epoch:
                    break
            await asyncio.sleep(LOOK_S)
        return role

    async def _ask(self) -> link.ReplicaGroupReply:
        config = self._config
        secret = link_secret.read(config.link_secret, config.link_secret_file)
        context = connecting_context(replica_files(config), logs.get("force"))
        connected = await replica_link.connect(config.name, config.advertise, secret, context)
        try:
            call = link.Call(replica_group=link.ReplicaGroup())
            return (await connected.call(call, CALL_S)).replica_group
        finally:
            connected.close()


@asynccontextmanager
async def forcing(config: BrokerConfig) -> AsyncIterator[Forcing]:
    """Raises `ConfigError`."""
    register = register_of(config)
    try:
        yield Forcing(config, register)
    finally:
        await register.close()
