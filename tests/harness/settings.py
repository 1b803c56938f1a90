"""A consumer's hello to a proxy of this process: its settings over Telemetry."""

import asyncio
from collections.abc import AsyncIterator

from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service


def say_hello(
    proxy: ProxyDriver,
    group: str,
    *topics: str,
    kind: "v2.ClientType.ValueType" = v2.PUSH_CONSUMER,
) -> v2.Status:
    """Of the first answer."""
    expression = v2.FilterExpression(expression="*")
    entries = [
        v2.SubscriptionEntry(topic=v2.Resource(name=topic), expression=expression)
        for topic in topics
    ]
    subscription = v2.Subscription(group=v2.Resource(name=group), subscriptions=entries)
    asked = v2.Settings(client_type=kind, subscription=subscription)

    async def commands() -> AsyncIterator[service.TelemetryCommand]:
        yield service.TelemetryCommand(settings=asked)
        await asyncio.Event().wait()

    async def first() -> v2.Status:
        stream = proxy.methods.client.telemetry(proxy.context, commands())
        answer = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return answer.status

    status: v2.Status = proxy.run(first())
    return status
