"""A broker in the routes of its nameservers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.register import Announcer, Registrar
from popmq_broker.engine.catalog.topics import Announced
from popmq_common.process.fatal import running
from popmq_internal.v1 import nameserver_pb2 as ns


@asynccontextmanager
async def registered(
    broker: Broker, address: str, announcers: Sequence[Announcer], epoch_ms: int
) -> AsyncIterator[None]:
    """Registered with every nameserver while the context lasts. `epoch_ms`: when this process
    began; a later one of the same name takes over from it."""
    state = broker.state
    registrars = [
        Registrar(
            announcer,
            ns.BrokerInfo(
                cluster=state.runtime.config.cluster,
                name=state.runtime.config.name,
                address=address,
                epoch_ms=epoch_ms,
                identity=state.catalog_state.identity,
                replica=state.runtime.config.replica,
            ),
            Announced(state.catalog_state),
            state.runtime.log,
            state.runtime.config.heartbeat_ms / 1000,
        )
        for announcer in announcers
    ]

    async def announce() -> None:
        await asyncio.gather(*(registrar.announce() for registrar in registrars))

    broker.topics.announce = announce
    try:
        async with AsyncExitStack() as registering:
            for registrar in registrars:
                run = running(registrar.run(), state.runtime.log, "registrar.failed")
                await registering.enter_async_context(run)
            yield
    finally:
        await asyncio.gather(*(registrar.stop() for registrar in registrars))
