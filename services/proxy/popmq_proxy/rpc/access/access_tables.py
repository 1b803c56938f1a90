"""The table of users and policies: asked of the brokers each second, and changed on all of them.

The newest that any broker shows is in force, here within a second; brokers that have an older one
get it. A change is made from the newest, and a broker refuses it if it has a newer one: then it is
made again from that. A broker that is away gets it when it is back.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from popmq_common.errors import AccessChanged, AccessNotKnown, Corrupt, PopMQError, Unavailable
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.access import table as access
from popmq_proxy.core.access.model import User
from popmq_proxy.core.access.table import NO_VERSION, AccessTable, Version
from popmq_proxy.rpc.shared.context import Upstream

EVERY_S: Final = 1.0
TIMEOUT_MS: Final = 3_000
TRIES: Final = 8
PAUSE_S: Final = 0.05
"""Between two tries, at most so long at random."""
STAMP_BYTES: Final = 8
Edit = Callable[[AccessTable], AccessTable]
OnChange = Callable[[AccessTable, AccessTable], None]
"""(before, after)"""


class AccessTables:
    def __init__(self, upstream: Upstream, random: Random) -> None:
        self._upstream = upstream
        self._random = random
        self._table: AccessTable | None = None
        """None: no broker has told of one yet."""
        self._versions: dict[str, Version] = {}
        """What each broker that answers had last."""
        self._changing = asyncio.Lock()
        self.on_change: list[OnChange] = []

    @property
    def current(self) -> AccessTable:
        """Raises `AccessNotKnown`."""
        if self._table is None:
            raise AccessNotKnown()
        return self._table

    @property
    def version(self) -> Version:
        return self._table.version if self._table else Version()

    async def run(self, first: User | None) -> None:
        """Look for newer tables, for ever. `first`: the user who is made when there is none."""
        while True:
            await self.refresh()
            if self._table is not None and not self._table.users:
                await self._begin(first)
            await asyncio.sleep(EVERY_S)

    async def _begin(self, first: User | None) -> None:
        if first is None:
            means = "nobody can be known: set POPMQ_PROXY_INIT_USER_FILE, or make a Super user"
            self._upstream.log.warning("access.no_users", means=means)
            return
        try:
            await self.change(lambda table: table if table.users else table.with_user(first))
        except PopMQError as failed:
            self._upstream.log.warning("access.first_user_not_made", reason=str(failed))
        else:
            self._upstream.log.info("access.first_user_made", user=first.username)

    async def refresh(self) -> None:
        """Once. A broker that does not answer is asked again by the next one."""
        try:
            brokers = await self._upstream.registered()
        except Unavailable:
            return
        asked = await asyncio.gather(*(self._ask(broker) for broker in brokers))
        self._versions = {
            broker: version for broker, version in zip(brokers, asked, strict=True) if version
        }
        if self._table is None and len(self._versions) == len(brokers):
            self._take(AccessTable())  # all of them say that there is none
        await self._spread()

    async def _ask(self, broker: str) -> Version | None:
        """What it has; a newer table than ours is in force from now on. None: it does not tell."""
        call = link.Call(get_access=link.GetAccess(known=_sent(self.version)))
        try:
            reply = (await self._upstream.call(broker, call, TIMEOUT_MS)).access
            version = Version(reply.version.version, reply.version.stamp)
            if reply.table and version > self.version:
                self._take(access.decode(version, reply.table))
        except Corrupt as damaged:
            self._upstream.log.error("access.unreadable", broker=broker, reason=str(damaged))
            return None
        except PopMQError:
            return None
        return version

    def _take(self, table: AccessTable) -> None:
        before, self._table = self._table or AccessTable(), table
        self._upstream.log.info(
            "access.in_force", version=table.version.version, users=len(table.users)
        )
        for tell in self.on_change:
            tell(before, table)

    async def _spread(self) -> None:
        """Brokers that have an older table get the one in force."""
        table = self._table
        if table is None or not table.version.version:
            return
        lacking = [name for name, version in self._versions.items() if version < table.version]
        await asyncio.gather(*(self._put(name, table, table.version) for name in lacking))

    async def lacking(self) -> list[str]:
        """Brokers that do not have the table in force, as the last look told. Raises
        `Unavailable`."""
        brokers = await self._upstream.registered()
        return [one for one in brokers if self._versions.get(one, NO_VERSION) < self.version]

    async def change(self, edit: Edit) -> tuple[AccessTable, list[str]]:
        """(table, brokers that do not have it yet). `edit` makes the new one of the newest, again
        when somebody else changed it meanwhile.

        Raises what `edit` raises, `AccessNotKnown`, `AccessChanged`, `Unavailable`, `DiskFull`.
        """
        async with self._changing:
            for _ in range(TRIES):
                await self.refresh()
                before = self.current
                edited = edit(before)
                if edited is before:
                    return before, []
                version = Version(before.version.version + 1, secrets.token_hex(STAMP_BYTES))
                edited = replace(edited, version=version)
                missing = await self._publish(edited, before.version)
                if missing is not None:
                    return edited, missing
                await asyncio.sleep(self._random.random() * PAUSE_S)
        raise AccessChanged()

    async def _publish(self, table: AccessTable, base: Version) -> list[str] | None:
        """The brokers that did not answer; None: one has a newer table than `base`, and what
        others took of this is superseded or spread by the next refresh."""
        brokers = await self._upstream.registered()
        failed = await asyncio.gather(*(self._put(broker, table, base) for broker in brokers))
        if any(isinstance(one, AccessChanged) for one in failed):
            await self.refresh()
            return [] if self._table is not None and self._table.version == table.version else None
        if all(failed):
            raise next(one for one in failed if one)
        if table.version > self.current.version:
            self._take(table)
        return [broker for broker, one in zip(brokers, failed, strict=True) if one]

    async def _put(self, broker: str, table: AccessTable, base: Version) -> PopMQError | None:
        """None: it is on its disk."""
        data = access.encode(table)
        put = link.PutAccess(version=_sent(table.version), base=_sent(base), table=data)
        try:
            await self._upstream.call(broker, link.Call(put_access=put), TIMEOUT_MS)
        except PopMQError as failed:
            if not isinstance(failed, AccessChanged):
                self._upstream.log.warning("access.not_told", broker=broker, reason=str(failed))
            return failed
        self._versions[broker] = table.version
        return None


def _sent(version: Version) -> link.AccessVersion:
    return link.AccessVersion(version=version.version, stamp=version.stamp)
