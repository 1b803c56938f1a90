"""What Envoy runs of a proxy: `popmq_proxy.envoy_main:app`, configured by the environment."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import from_env
from popmq_proxy.app import application, handlers
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.lifespan import Built, LifespanApp


@asynccontextmanager
async def build() -> AsyncIterator[Built]:
    config = from_env(ProxyConfig, "POPMQ_PROXY_", os.environ)
    logs.configure(config.log_level, limited=True)
    async with (
        handlers(config, SystemClock()) as inner,
        application(config, inner) as app,
    ):
        yield Built(app, inner.drain)


app = LifespanApp(build)
