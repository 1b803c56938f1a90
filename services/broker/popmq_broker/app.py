"""Build a broker from its configuration, in order; the only file that knows all parts."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from popmq_broker import metrics
from popmq_broker.config import BrokerConfig, Flush
from popmq_broker.core.retries.retry import is_first_of_pair
from popmq_broker.core.store.index import Sizes
from popmq_broker.core.timers import timer_levels
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.peers import identify
from popmq_broker.engine.catalog.register import Announcer, GrpcAnnouncer, Registrar
from popmq_broker.engine.catalog.topics import Announced
from popmq_broker.engine.journal.long_polls import WaitingPolls
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.startup import parked_leases, replay
from popmq_broker.rpc.health import health
from popmq_broker.rpc.link import LinkServer
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import writing_to
from popmq_broker.store.open import open_store
from popmq_broker.store.store import Store
from popmq_common.errors import DiskFull
from popmq_common.link import link_secret
from popmq_common.metrics.metrics_http import MetricsServer
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.tls.service_ends import listening_context
from popmq_common.tls.settings import link_files, metrics_files, nameserver_files
from popmq_internal.v1 import nameserver_pb2 as ns

EXIT_BUG = 70
"""Exit code when a task that must run for ever ended with an error (EX_SOFTWARE)."""
EXIT_DISK = 74
"""Exit code when fdatasync failed: nobody knows what the disk holds (EX_IOERR)."""


@dataclass(frozen=True, slots=True)
class BrokerServer:
    """A broker that serves its link."""

    broker: Broker
    port: int


@asynccontextmanager
async def server(config: BrokerConfig, clock: Clock) -> AsyncIterator[BrokerServer]:
    """The broker with its link, metrics and registrations.

    Raises `ConfigError`, `DirectoryInUse`, `DirectoryNotWritable`, `Corrupt`.
    """
    secret = link_secret.read(config.link_secret, config.link_secret_file)
    log = logs.get("broker").bind(broker=config.name)
    shown = link_files(config, "BROKER", config.link_tls_client_ca)
    link_tls = listening_context(shown, log, "link")
    metrics_tls = listening_context(metrics_files(config, "BROKER"), log, "metrics")
    asking = nameserver_files(config, "BROKER")
    async with engine(config, clock) as broker:
        link_server = LinkServer(
            broker.handle,
            broker.handle_sends,
            name=config.name,
            secret=secret,
            log=log,
            tls=link_tls,
        )
        await link_server.start(config.host, config.port)
        address = config.advertise or f"{config.host}:{link_server.port}"
        remembered_as = broker.peers.remembered_as
        announcers = [
            GrpcAnnouncer(nameserver, secret, remembered_as, asking)
            for nameserver in config.nameservers
        ]
        pages = MetricsServer(
            metrics.registry(broker, link_server),
            config.host,
            config.metrics_port,
            tls=metrics_tls,
        )
        try:
            async with (
                registered(broker, address, announcers, clock),
                pages,
                health(config.host, config.health_port, shown, log),
            ):
                modes = {"flush": config.flush.value, "pop_buffer": config.pop_buffer.value}
                log.info("broker.started", link=address, **modes)
                yield BrokerServer(broker, link_server.port)
        finally:
            await link_server.stop()
            log.info("broker.stopped")


@asynccontextmanager
async def registered(
    broker: Broker, address: str, announcers: Sequence[Announcer], clock: Clock
) -> AsyncIterator[None]:
    """Registered with every nameserver while the context lasts."""
    state = broker.state
    epoch_ms = clock.now_ms()
    registrars = [
        Registrar(
            announcer,
            ns.BrokerInfo(
                cluster=state.runtime.config.cluster,
                name=state.runtime.config.name,
                address=address,
                epoch_ms=epoch_ms,
                identity=state.catalog_state.identity,
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
    tasks = [asyncio.create_task(registrar.run()) for registrar in registrars]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(registrar.stop() for registrar in registrars))


@asynccontextmanager
async def engine(config: BrokerConfig, clock: Clock) -> AsyncIterator[Broker]:
    """The broker without its network: open, recover, run; closed cleanly at the end.

    An error in a task beside the calls ends the process: half a broker must not answer. Raises
    `DirectoryInUse`, `Corrupt`.
    """
    opened = await open_engine(config, clock)
    beside = asyncio.create_task(opened.run(), name="broker")
    beside.add_done_callback(partial(_exit_on_error, opened.state.runtime.log))
    try:
        yield opened
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        await opened.close()


def _exit_on_error(log: logs.Log, task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("broker.failed", exc_info=error)
        os._exit(EXIT_BUG)


async def open_engine(config: BrokerConfig, clock: Clock) -> Broker:
    """The same without the tasks that run beside the calls; the caller closes it."""
    log = logs.get("broker").bind(broker=config.name)

    def fatal(failed: BaseException) -> None:
        log.error("disk.failed", reason=repr(failed), data_dir=str(config.data_dir))
        os._exit(EXIT_DISK)

    delays_ms = timer_levels.parse(config.delay_levels)
    with writing_to(config.data_dir):
        store = await open_store(
            StoreConfig(
                data_dir=config.data_dir,
                segment_bytes=config.segment_bytes,
                queue_file_bytes=config.queue_file_bytes,
                sync_flush=config.flush is Flush.SYNC,
                async_flush_interval_ms=config.async_flush_interval_ms,
                disk_reserve_bytes=config.disk_reserve_bytes,
                index=Sizes(slots=config.index_slots, entries=config.index_entries)
                if config.index
                else None,
                disk_clean_percent=config.disk_clean_percent,
                disk_refuse_percent=config.disk_refuse_percent,
            ),
            log,
            is_first_of_pair=is_first_of_pair,
            code_of=lambda record: timer_levels.entry_code(record, delays_ms),
            fatal=fatal,
        )
        try:
            return await _load(store, config, clock, log)
        except BaseException:  # files that cannot be read: the directory must be free for repair
            store.abandon()
            raise


async def _load(store: Store, config: BrokerConfig, clock: Clock, log: logs.Log) -> Broker:
    """Tables and leases, as the files of the store say."""
    long_polls = WaitingPolls(
        config.waiting_polls_max,
        config.wake_gap_ms,
        gap_ms_max=config.wake_gap_ms_max,
        group_count_max=config.waiting_polls_per_group_max,
    )
    state = BrokerState(
        Runtime(config=config, store=store, clock=clock, log=log, long_polls=long_polls)
    )
    state.catalog_state.identity, is_new = await identify(store, secrets.token_hex(8))
    if is_new and not store.log_end:
        log.warning("broker.empty", data_dir=str(config.data_dir), means="nothing was stored here")
    await parked_leases.bring_in(state.runtime, state.lease_state)
    files_are_ahead = replay.load(
        state.runtime, state.catalog_state, state.lease_state, state.halves
    )
    await state.runtime.damage.saved_quietly()
    broker = Broker(state)
    if files_are_ahead:
        log.warning("log.shorter", means="offsets that were lost with its end are used again")
        broker.catalog.write_all()
        await broker.offsets.write()
    await broker.load_timers()
    broker.topics.ensure_own_topics()
    broker.topics.restore()
    await _begin(broker)
    await broker.catalog.save()
    return broker


async def _begin(broker: Broker) -> None:
    """The log tells of this start, and all settings of a directory of an earlier version. A disk
    that is full leaves it to the next one."""
    try:
        broker.catalog.begin_epoch()
    except DiskFull as full:
        broker.state.runtime.log.warning("epoch.not_begun", reason=str(full))
        return
    await broker.catalog.write_whole(broker.state.runtime.store.log_start)
