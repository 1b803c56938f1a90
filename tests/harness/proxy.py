"""A proxy's handlers before real broker engines, without a network, one call at a time.

The clock is the engines' and moved by hand, so a test says when a lease ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any

from harness.broker import EngineDriver
from harness.reachable import Reachable

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_broker.engine.catalog.topics import Announced
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.process import logs
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.local_brokers import LocalBroker
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.clients.route_cache import RouteCache
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.rpcs import ADMIN_METHODS
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.methods import methods
from popmq_proxy.rpc.shared.context import CallContext, Upstream

GROUP, TOPIC = v2.Resource(name="g"), v2.Resource(name="t")


class ProxyDriver:
    """One proxy. All of several before the same engines serve the same cluster."""

    def __init__(
        self, *engines: EngineDriver, away: set[str] | None = None, **settings: Any
    ) -> None:
        """Engines of one event loop: the first one's runs everything. `away`: names of brokers
        that the proxy does not reach just now; the test changes it."""
        self._engines = list(engines)
        nameservers = LocalNameservers(self._lookup, self._brokers)
        self.brokers = Reachable(
            {engine.broker.name: _serve(engine) for engine in engines},
            set() if away is None else away,
        )
        self.upstream = Upstream(
            config=ProxyConfig(**{"create_topics": True, "invisible_ms_min": 10, **settings}),
            routes=RouteCache(nameservers),
            brokers=self.brokers,
            clock=engines[0].clock,
            log=logs.get("proxy"),
        )
        self.methods = methods(self.upstream, ProxyMetrics(self.upstream.sessions))
        self.context = CallContext({"x-mq-client-id": "client"}, "192.0.2.7:4711", None)

    def add(self, engine: EngineDriver) -> None:
        """A broker that comes later."""
        self._engines.append(engine)
        self.brokers.add(engine.broker.name, _serve(engine))

    def engine(self, name: str) -> EngineDriver:
        return next(engine for engine in self._engines if engine.broker.name == name)

    def _brokers(self) -> list[ns.BrokerInfo]:
        return [
            ns.BrokerInfo(
                name=engine.broker.name, identity=engine.broker.state.catalog_state.identity
            )
            for engine in self._engines
        ]

    def _lookup(self, topic: str) -> list[ns.QueueRoute]:
        return [
            ns.QueueRoute(broker=ns.BrokerInfo(name=engine.broker.name), topic=config)
            for engine in self._engines
            for config in Announced(engine.broker.state.catalog_state).everything()
            if config.name == topic
        ]

    def call(self, method: str, request: Any) -> Any:
        return self.run(self.methods.unary[method](self.context, request))

    def admin(self, method: str, request: Any) -> Any:
        """An RPC of popmq.admin.v1 by its name."""
        _, place = ADMIN_METHODS[method]
        return self.run(attrgetter(place)(self.methods)(self.context, request))

    def run_method(
        self, handler: Callable[[CallContext, Any], Awaitable[Any]], request: Any
    ) -> Any:
        return self.run(handler(self.context, request))

    def run(self, work: Awaitable[Any]) -> Any:
        async def step() -> Any:
            return await work

        return self._engines[0].run(step())

    def send(
        self,
        body: bytes,
        topic: v2.Resource = TOPIC,
        properties: dict[str, str] | None = None,
        **system: Any,
    ) -> v2.Status:
        message = v2.Message(
            topic=topic,
            body=body,
            user_properties=properties or {},
            system_properties=v2.SystemProperties(**{"message_id": f"id-{body!r}", **system}),
        )
        request = service.SendMessageRequest(messages=[message])
        status: v2.Status = self.call("SendMessage", request).status
        return status

    def responses(self, **fields: Any) -> list[service.ReceiveMessageResponse]:
        """What a receive answers; without a poll unless `fields` ask for one."""
        request = service.ReceiveMessageRequest(
            **{
                "group": GROUP,
                "message_queue": v2.MessageQueue(topic=TOPIC),
                "batch_size": 32,
                "long_polling_timeout": {"seconds": 0},
                **fields,
            }
        )
        return self.receive_as_is(request)

    def receive_as_is(
        self, request: service.ReceiveMessageRequest
    ) -> list[service.ReceiveMessageResponse]:
        handler = self.methods.answers["ReceiveMessage"]
        answer = self.run(handler(self.context, request))
        return [service.ReceiveMessageResponse.FromString(one) for one in answer.responses]

    def receive(self, invisible_s: int = 10, **fields: Any) -> list[v2.Message]:
        found = self.responses(invisible_duration={"seconds": invisible_s}, **fields)
        return [response.message for response in found if response.HasField("message")]

    def ack(self, *messages: v2.Message, topic: v2.Resource = TOPIC) -> Sequence[v2.Status]:
        """A status for each."""
        entries = [
            service.AckMessageEntry(
                message_id=message.system_properties.message_id,
                receipt_handle=message.system_properties.receipt_handle,
            )
            for message in messages
        ]
        request = service.AckMessageRequest(group=GROUP, topic=topic, entries=entries)
        return [entry.status for entry in self.call("AckMessage", request).entries]


def _serve(engine: EngineDriver) -> LocalBroker:
    """The engine's broker as it is when the call comes: a restart makes a new one."""

    async def handle(call: link.Call) -> link.Reply:
        return await engine.broker.handle(call)

    def handle_sends(
        calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply | SendDone], None]
    ) -> None:
        engine.broker.handle_sends(calls, answer)

    return LocalBroker(handle, handle_sends)
