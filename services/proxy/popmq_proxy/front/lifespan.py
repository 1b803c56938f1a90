"""An application as Envoy starts and stops it: built at the first event, closed at the last."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any

from popmq_common.errors import PopMQError
from popmq_common.process.config import ConfigError
from popmq_common.process.serve import spare_collector
from popmq_proxy.front.asgi import GrpcApp
from popmq_proxy.front.control import ControlLine
from popmq_proxy.front.envoy_calls import EnvoyCall, EnvoyCalls, task_factory
from popmq_proxy.front.events import Event, Receive, Send


@dataclass(frozen=True, slots=True)
class Built:
    app: GrpcApp
    drain: Callable[[], None]


class LifespanApp:
    _asgi_single_callable = True  # asgiref's word for: ASGI 3, though no coroutine function

    def __init__(self, build: Callable[[], AbstractAsyncContextManager[Built]]) -> None:
        self._build = build
        self._calls: EnvoyCalls | None = None

    def __call__(
        self, scope: Event, receive: Receive, send: Send
    ) -> Coroutine[Any, Any, None] | EnvoyCall:
        calls = self._calls
        if calls is None or scope["type"] != "http":
            return self._live(receive, send)
        return calls.take(scope, receive, send) or calls.app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        control = ControlLine()
        async with AsyncExitStack() as stack:
            stack.callback(control.close)
            try:
                built = await stack.enter_async_context(self._build())
            except (PopMQError, ConfigError, RuntimeError, ValueError, OSError) as wrong:
                await control.tell(error=str(wrong))
                # The supervisor ends this process; an error raised here would make Envoy cry.
                await asyncio.Event().wait()
            asyncio.get_running_loop().set_task_factory(task_factory)
            self._calls = EnvoyCalls(built.app)
            spare_collector()
            control.listen(built.drain)
            await control.tell(ready=True)
            await send({"type": "lifespan.startup.complete"})
            await receive()  # lifespan.shutdown
        await send({"type": "lifespan.shutdown.complete"})
