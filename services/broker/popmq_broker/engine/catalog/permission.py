"""What clients may do at this broker, whatever its topics say: to empty one before it is removed.

A broker that is read only refuses new messages, and proxies send them elsewhere; what it holds is
received as before. Messages of message groups whose place is here are refused until it may be
written again: elsewhere they would overtake what lies here.

Source: RocketMQ's brokerPermission. Differs: it is kept in a file of its own, `permission.json`.
"""

import json
from typing import Final

from popmq_broker.core.catalog.catalog import CatalogKind, Change
from popmq_broker.core.catalog.tables import PERM_BOTH, PERM_READ
from popmq_broker.engine.catalog.catalog import PERMISSION_FILE
from popmq_broker.engine.catalog.topics import Topics
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest, Corrupt
from popmq_internal.v1 import link_pb2 as link

ALLOWED: Final = (PERM_READ, PERM_BOTH)


class Permission:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, topics: Topics) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._topics = topics

    async def set_permission(self, request: link.SetPermission) -> link.Done:
        """In force when it is on disk, and nameservers know it. Raises `BadRequest`, `DiskFull`."""
        if request.perm not in ALLOWED:
            raise BadRequest(reason=f"permission {request.perm}, 4 (read) or 6 (read and write)")
        runtime = self._runtime
        if request.perm != self._catalog_state.perm:
            self._topics.catalog.change(Change(CatalogKind.PERM, "", request.perm))
        await runtime.store.durable(runtime.store.log_end)
        await self._topics.announce()
        return link.Done()


def decode_permission(text: str) -> int:
    """Raises `Corrupt`."""
    try:
        perm = int(json.loads(text)["perm"])
    except (KeyError, TypeError, ValueError) as wrong:
        reason = f"no permission: {wrong!r}"
        raise Corrupt(path=PERMISSION_FILE, offset=0, reason=reason) from wrong
    if perm not in ALLOWED:
        raise Corrupt(path=PERMISSION_FILE, offset=0, reason=f"permission {perm}, 4 or 6")
    return perm
