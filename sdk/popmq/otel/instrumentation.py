"""What a client is given to be traced and measured."""

from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry import metrics, propagate, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import TracerProvider

from popmq.message import Message, ReceivedMessage
from popmq.observer import (
    Block,
    ClientFacts,
    Observer,
    Processes,
    Receives,
    Sends,
    Settlement,
)
from popmq.otel.attributes import SYSTEM, of_client, of_server
from popmq.otel.blocks import Kit, ProcessBlock, ReceiveBlock, SendBlock, SettleBlock
from popmq.otel.measures import Measures

SCOPE = "popmq"


class OpenTelemetry:
    """Serves any number of clients; it keeps nothing of them."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        create_spans: bool = True,
    ) -> None:
        """None: the application's own, as `opentelemetry.trace`, `.metrics` and `.propagate` have
        them at this moment. `create_spans`: each message of a `send_many` has a span of its own;
        False is cheaper, and they share the call's."""
        tracer = trace.get_tracer(SCOPE, version("popmq"), tracer_provider)
        meter = metrics.get_meter(SCOPE, version("popmq"), meter_provider)
        self._kit = Kit(
            tracer=tracer,
            measures=Measures(meter),
            propagator=propagator or propagate.get_global_textmap(),
            server={SYSTEM: "rocketmq"},
            client={},
            create_spans=create_spans,
        )

    def observer(self, client: ClientFacts) -> Observer:
        """Called by the client."""
        return _Observer(self._kit._replace(server=of_server(client), client=of_client(client)))

    def process(self, *messages: ReceivedMessage) -> Block:
        """A block around the handling of messages that were received, for code that has no handler:

        async for message in consumer:
            with telemetry.process(message):
                await work(message)
                await message.ack()
        """
        return ProcessBlock(self._kit, messages)


class _Observer:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def send(self, topic: str, messages: Sequence[Message], *, transaction: bool = False) -> Sends:
        return SendBlock(self._kit, topic, messages, transaction=transaction)

    def receive(self, topic: str, group: str) -> Receives:
        return ReceiveBlock(self._kit, topic, group)

    def process(self, messages: Sequence[ReceivedMessage]) -> Processes:
        return ProcessBlock(self._kit, messages)

    def settle(self, message: ReceivedMessage, how: Settlement) -> Block:
        return SettleBlock(self._kit, message, how)
