"""QueryRoute and QueryAssignment: which brokers and queues a topic has."""

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import NoPermission
from popmq_common.records.names import check_group
from popmq_proxy.core.messages.status import ok
from popmq_proxy.core.routing import routes
from popmq_proxy.rpc.shared.context import CallContext, Upstream


class RouteHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def query_route(
        self, ctx: CallContext, request: service.QueryRouteRequest
    ) -> service.QueryRouteResponse:
        found = await self._upstream.topic_routes(ctx.stored(request.topic), ctx.user)
        endpoints = self._endpoints(request.endpoints)
        queues = routes.message_queues(found, request.topic, endpoints)
        return service.QueryRouteResponse(status=ok(), message_queues=queues)

    async def query_assignment(
        self, ctx: CallContext, request: service.QueryAssignmentRequest
    ) -> service.QueryAssignmentResponse:
        topic, group = ctx.stored(request.topic), ctx.stored(request.group)
        check_group(group)
        found = await self._upstream.topic_routes(topic, ctx.user)
        config = await self._upstream.group(group, ctx.user)
        endpoints = self._endpoints(request.endpoints)
        assigned = routes.assignments(found, request.topic, endpoints, fifo=config.fifo)
        if not assigned:
            raise NoPermission(topic=topic, action="readable")
        return service.QueryAssignmentResponse(status=ok(), assignments=assigned)

    def _endpoints(self, asked: v2.Endpoints) -> v2.Endpoints:
        """The door the client came through, so that it comes back the same way."""
        if asked.addresses and asked.scheme != v2.ADDRESS_SCHEME_UNSPECIFIED:
            return asked
        address = v2.Address(host=self._upstream.config.host, port=self._upstream.port)
        return v2.Endpoints(scheme=v2.IPv4, addresses=[address])
