"""The gRPC service over the route table."""

from typing import Any

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge

from popmq_common.clock import Clock
from popmq_common.errors import TooManyRequests
from popmq_common.logs import Log
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_internal.v1 import nameserver_pb2_grpc as ns_grpc
from popmq_nameserver.core.route_table import RouteTable

Context = grpc.aio.ServicerContext[Any, Any]


class NameserverRpc(ns_grpc.NameserverServicer):
    def __init__(self, table: RouteTable, clock: Clock, log: Log) -> None:
        self._table = table
        self._clock = clock
        self._log = log
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "popmq_nameserver_calls", "Calls by kind", ["call"], registry=self.registry
        )
        self._expired = Counter(
            "popmq_nameserver_expired", "Brokers taken out for silence", registry=self.registry
        )
        brokers = Gauge("popmq_nameserver_brokers", "Registered brokers", registry=self.registry)
        brokers.set_function(lambda: len(table.brokers()))

    async def Register(self, request: ns.RegisterRequest, context: Context) -> ns.RegisterResponse:
        self._calls.labels("register").inc()
        now_ms = self._clock.now_ms()
        try:
            accepted = self._table.register(request.broker, list(request.topics), now_ms)
        except TooManyRequests as full:
            self._log.error("broker.refused", broker=request.broker.name, reason=str(full))
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(full))
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
        self._calls.labels("heartbeat").inc()
        known = self._table.heartbeat(request.broker, self._clock.now_ms())
        return ns.HeartbeatResponse(known=known)

    async def Unregister(
        self, request: ns.UnregisterRequest, context: Context
    ) -> ns.UnregisterResponse:
        self._calls.labels("unregister").inc()
        self._table.unregister(request.broker)
        self._log.info("broker.unregistered", broker=request.broker.name)
        return ns.UnregisterResponse()

    async def Lookup(self, request: ns.LookupRequest, context: Context) -> ns.LookupResponse:
        self._calls.labels("lookup").inc()
        self.expire()
        return ns.LookupResponse(routes=self._table.lookup(request.topic))

    async def ListBrokers(
        self, request: ns.ListBrokersRequest, context: Context
    ) -> ns.ListBrokersResponse:
        self._calls.labels("list_brokers").inc()
        self.expire()
        return ns.ListBrokersResponse(brokers=self._table.brokers())

    def expire(self) -> None:
        """Take out silent brokers: every second, and before routes are given out."""
        for name in self._table.expire(self._clock.now_ms()):
            self._expired.inc()
            self._log.warning("broker.expired", broker=name)
