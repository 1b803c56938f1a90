"""popmq.admin.v1: what clients may do at a broker."""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream

PERMISSIONS = {"read": 4, "read-write": 6}


class BrokerAdminHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def set_permission(
        self, ctx: CallContext, request: admin.SetPermissionRequest
    ) -> admin.SetPermissionResponse:
        """Raises `BadRequest`, `BrokerNotFound`, `BrokerDown`."""
        perm = PERMISSIONS.get(request.permission)
        if perm is None:
            reason = f"permission {request.permission!r}, one of {', '.join(PERMISSIONS)}"
            raise BadRequest(reason=reason)
        if not request.broker:
            raise BadRequest(reason="no broker is named")
        (broker,) = await self._upstream.registered(request.broker)
        call = link.Call(set_permission=link.SetPermission(perm=perm))
        await self._upstream.call(broker, call)
        self._upstream.routes.make_stale()
        return admin.SetPermissionResponse()
