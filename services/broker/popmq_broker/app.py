"""Build a broker from its configuration, in order; the only file that knows all parts."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from popmq_broker.config import BrokerConfig, Flush
from popmq_broker.core.retry import is_first_of_pair
from popmq_broker.engine import replay
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.send import tag_of
from popmq_broker.engine.state import BrokerState
from popmq_broker.engine.wait import Waiters
from popmq_broker.store.config import StoreConfig
from popmq_broker.store.open import open_store
from popmq_common import logs
from popmq_common.clock import Clock

EXIT_DISK = 74
"""Exit code when fdatasync failed: nobody knows what the disk holds (EX_IOERR)."""


@asynccontextmanager
async def engine(config: BrokerConfig, clock: Clock) -> AsyncIterator[Broker]:
    """The broker without its network: open, recover, run; closed cleanly at the end.

    Raises `DirectoryInUse`, `Corrupt`.
    """
    opened = await open_engine(config, clock)
    tasks = asyncio.create_task(opened.run(), name="broker")
    try:
        yield opened
    finally:
        tasks.cancel()
        await asyncio.gather(tasks, return_exceptions=True)
        await opened.close()


async def open_engine(config: BrokerConfig, clock: Clock) -> Broker:
    """The same without the tasks that run beside the calls; the caller closes it."""
    log = logs.get("broker").bind(broker=config.name)

    def fatal(failed: BaseException) -> None:
        log.error("disk.failed", reason=repr(failed), data_dir=str(config.data_dir))
        os._exit(EXIT_DISK)

    store = await open_store(
        StoreConfig(
            data_dir=config.data_dir,
            segment_bytes=config.segment_bytes,
            queue_file_bytes=config.queue_file_bytes,
            sync_flush=config.flush is Flush.SYNC,
            async_flush_interval_ms=config.async_flush_interval_ms,
            disk_reserve_bytes=config.disk_reserve_bytes,
        ),
        log,
        tag_of=tag_of,
        is_first_of_pair=is_first_of_pair,
        fatal=fatal,
    )
    waiters = Waiters(config.waiting_polls_max)
    state = BrokerState(config=config, store=store, clock=clock, log=log, waiters=waiters)
    replay.load(state)
    broker = Broker(state)
    broker.topics.ensure_revive_topic()
    await broker.topics.save()
    return broker
