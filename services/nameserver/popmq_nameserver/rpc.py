"""The gRPC service over the route table."""

from importlib.metadata import version
from typing import Any

import grpc

from popmq_common.clock import Clock
from popmq_common.errors import TooManyRequests
from popmq_common.logs import Log
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.core.route_table import RouteTable
from popmq_nameserver.metrics import Metrics

Context = grpc.aio.ServicerContext[Any, Any]


class NameserverRpc(ns_grpc.NameserverServicer):
    def __init__(self, table: RouteTable, clock: Clock, log: Log) -> None:
        self._table = table
        self._clock = clock
        self._log = log
        self._started_ms = clock.now_ms()
        self._version = version("popmq")
        self._metrics = Metrics(table)
        self.registry = self._metrics.registry

    async def Register(self, request: ns.RegisterRequest, context: Context) -> ns.RegisterResponse:
        self._metrics.calls["register"] += 1
        now_ms = self._clock.now_ms()
        try:
            accepted = self._table.register(request.broker, list(request.topics), now_ms)
        except TooManyRequests as full:
            self._log.error("broker.refused", broker=request.broker.name, reason=str(full))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full))
        self._metrics.refused += not accepted
        self._log.info(
            "broker.registered" if accepted else "broker.refused",
            broker=request.broker.name,
            address=request.broker.address,
            topics=len(request.topics),
        )
        return ns.RegisterResponse(accepted=accepted)

    async def Heartbeat(
        self, request: ns.HeartbeatRequest, context: Context
    ) -> ns.HeartbeatResponse:
        self._metrics.calls["heartbeat"] += 1
        known = self._table.heartbeat(request.broker, self._clock.now_ms())
        return ns.HeartbeatResponse(known=known)

    async def Unregister(
        self, request: ns.UnregisterRequest, context: Context
    ) -> ns.UnregisterResponse:
        self._metrics.calls["unregister"] += 1
        self._table.unregister(request.broker)
        self._log.info("broker.unregistered", broker=request.broker.name)
        return ns.UnregisterResponse()

    async def Lookup(self, request: ns.LookupRequest, context: Context) -> ns.LookupResponse:
        self._metrics.calls["lookup"] += 1
        self.expire()
        return ns.LookupResponse(routes=self._table.lookup(request.topic))

    async def ListBrokers(
        self, request: ns.ListBrokersRequest, context: Context
    ) -> ns.ListBrokersResponse:
        self._metrics.calls["list_brokers"] += 1
        self.expire()
        return ns.ListBrokersResponse(brokers=self._table.brokers())

    async def Describe(
        self, request: ns.DescribeNameserverRequest, context: Context
    ) -> ns.DescribeNameserverResponse:
        self._metrics.calls["describe"] += 1
        self.expire()
        return ns.DescribeNameserverResponse(
            version=self._version,
            started_ms=self._started_ms,
            brokers=len(self._table.brokers()),
            topics=self._table.topic_count(),
        )

    def expire(self) -> None:
        """Take out silent brokers: every second, and before routes are given out."""
        for name in self._table.expire(self._clock.now_ms()):
            self._metrics.expired += 1
            self._log.warning("broker.expired", broker=name)
