"""Users and policies of the cluster, kept here as one table: a record of the log, then memory.

A broker does not know what is in it; proxies do (popmq_proxy/core/access). It takes a table only if
what it has is not newer than what that was made from, so no change undoes another one unseen.
"""

import json
from typing import Final

from popmq_broker.core.catalog.catalog import AccessVersion, CatalogKind, Change, StoredAccess
from popmq_broker.engine.catalog.catalog import Catalog
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import AccessChanged, BadRequest
from popmq_common.units import MiB
from popmq_internal.v1 import link_pb2 as link

TABLE_BYTES_MAX: Final = 3 * MiB


class AccessRecords:
    def __init__(self, runtime: Runtime, catalog_state: CatalogState, catalog: Catalog) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._catalog = catalog

    async def get(self, request: link.GetAccess) -> link.AccessReply:
        access = self._catalog_state.access
        reply = link.AccessReply(version=_sent(access.version))
        if access.version != _came(request.known):
            reply.table = access.table.encode()
        return reply

    async def put(self, request: link.PutAccess) -> link.AccessReply:
        """Durable when it is answered. Raises `BadRequest`, `AccessChanged`, `DiskFull`."""
        runtime = self._runtime
        version, base = _came(request.version), _came(request.base)
        _check(request.table, version)
        has = self._catalog_state.access.version
        if has > base or has > version:
            raise AccessChanged()
        if has != version:
            table = request.table.decode()
            change = Change(CatalogKind.ACCESS, "", StoredAccess(version, table))
            self._catalog.change(change)
            runtime.log.info("access.changed", version=version.version)
        await runtime.store.durable(runtime.store.log_end)
        return link.AccessReply(version=_sent(version))


def _check(table: bytes, version: AccessVersion) -> None:
    """Raises `BadRequest`."""
    if version.version <= 0 or len(table) > TABLE_BYTES_MAX:
        reason = f"a table of {len(table)} bytes, version {version.version}"
        raise BadRequest(reason=f"{reason}; at most {TABLE_BYTES_MAX}, from version 1")
    try:
        if not isinstance(json.loads(table), dict):
            raise ValueError("no object")
    except ValueError as wrong:
        raise BadRequest(reason=f"the table of users is no JSON object: {wrong}") from wrong


def _came(version: link.AccessVersion) -> AccessVersion:
    return AccessVersion(version.version, version.stamp)


def _sent(version: AccessVersion) -> link.AccessVersion:
    return link.AccessVersion(version=version.version, stamp=version.stamp)
