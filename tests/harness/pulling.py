"""The SDK's pull consumers before a proxy of this process: each call goes to its handler."""

from typing import Any

from harness.proxy import ProxyDriver

from popmq import PullConsumer


class _Names:
    """A stub whose methods are their names."""

    def __getattr__(self, method: str) -> str:
        return method


def pull_through(proxy: ProxyDriver, consumer: PullConsumer) -> PullConsumer:
    """The consumer, which reaches this proxy and nothing else."""
    connection: Any = consumer.connection
    context = proxy.context._replace(metadata={"x-mq-client-id": connection.client_id})

    async def ask(method: str, request: Any, *, wait_s: float = 0.0, attempts: int = 1) -> Any:
        return await proxy.methods.unary[method](context, request)

    connection.stub = connection.consumer = _Names()
    connection.ask = ask
    return consumer
