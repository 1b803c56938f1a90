"""popmq.admin.v1 ExportSnapshot and ExportStatus: each broker is asked, and tells for itself."""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import PopMQError
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class ExportHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def begin(
        self, ctx: CallContext, request: admin.ExportSnapshotRequest
    ) -> admin.ExportResponse:
        """Raises `NoBroker`, `BrokerNotFound`. A broker that refuses is told, not raised."""
        call = link.Call(export_snapshot=link.ExportSnapshot(whole=request.whole))
        return await self._ask(request.broker, call)

    async def status(
        self, ctx: CallContext, request: admin.ExportStatusRequest
    ) -> admin.ExportResponse:
        """Raises `NoBroker`, `BrokerNotFound`. One that does not answer is told, not raised."""
        return await self._ask(request.broker, link.Call(export_status=link.ExportStatus()))

    async def _ask(self, broker: str, call: link.Call) -> admin.ExportResponse:
        response = admin.ExportResponse()
        for name in await self._upstream.registered(broker):
            told = response.brokers.add(broker=name)
            asked = link.Call()
            asked.CopyFrom(call)  # each gets an id of its own
            try:
                reply = await self._upstream.call(name, asked)
            except PopMQError as failed:
                told.failure = str(failed)
            else:
                _tell(told, reply.export)
        return response


def _tell(told: admin.BrokerExport, found: link.ExportReply) -> None:
    told.snapshot_id = found.snapshot_id
    told.started_ms = found.started_ms
    told.rows = found.rows
    if found.HasField("last"):
        # The same fields with the same numbers, on both sides of the proxy.
        told.last.ParseFromString(found.last.SerializeToString())
