"""A broker from its directory: open, recover, load."""

import os
import secrets
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from popmq_broker.config import BrokerConfig, Flush
from popmq_broker.core.replication.epochs import EPOCHS_FILE
from popmq_broker.core.retries.retry import is_first_of_pair
from popmq_broker.core.store.index import Sizes
from popmq_broker.core.timers import timer_levels
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.catalog.peers import identify
from popmq_broker.engine.journal.long_polls import WaitingPolls
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.replication.directory import REPLICA_FILE
from popmq_broker.engine.startup import known_sends_replay, parked_leases, replay
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.files import writing_to
from popmq_broker.store.open import open_store
from popmq_broker.store.store import Store
from popmq_common.errors import DiskFull
from popmq_common.process import logs
from popmq_common.process.clock import Clock
from popmq_common.process.config import ConfigError

EXIT_DISK = 74
"""Exit code when fdatasync failed: nobody knows what the disk holds (EX_IOERR)."""

EMPTY = "nothing was stored here"

S = TypeVar("S", bound=Store)


def exit_on_disk(config: BrokerConfig, log: logs.Log, failed: BaseException) -> None:
    log.error("disk.failed", reason=repr(failed), data_dir=str(config.data_dir))
    os._exit(EXIT_DISK)


async def open_engine(config: BrokerConfig, clock: Clock) -> Broker:
    """The same without the tasks that run beside the calls; the caller closes it."""
    log = logs.get("broker").bind(broker=config.name)

    fatal = partial(exit_on_disk, config, log)
    _refuse_replica(config)
    with writing_to(config.data_dir):
        store = await open_directory(config, log, fatal, Store)
        try:
            return await load_broker(new_state(store, config, clock, log))
        except BaseException:  # files that cannot be read: the directory must be free for repair
            store.abandon()
            raise


def _refuse_replica(config: BrokerConfig) -> None:
    """What is appended to a replica's log outside of its group would make it another one."""
    mark = config.data_dir / "config" / REPLICA_FILE
    if config.replica or mark.exists():
        raise ConfigError(
            f"{config.data_dir} is the directory of a replica: run it as one "
            "(POPMQ_BROKER_REPLICA, POPMQ_BROKER_REGISTER), or, to use it alone from now on, "
            f"remove {REPLICA_FILE} and {EPOCHS_FILE} from its folder config/"
        )


def store_config(config: BrokerConfig) -> StoreConfig:
    return StoreConfig(
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
    )


async def open_directory(
    config: BrokerConfig, log: logs.Log, fatal: Callable[[BaseException], None], kind: type[S]
) -> S:
    """The store of the broker's directory. Raises `DirectoryInUse`, `Corrupt`."""
    delays_ms = timer_levels.parse(config.delay_levels)
    return await open_store(
        store_config(config),
        log,
        is_first_of_pair=is_first_of_pair,
        code_of=lambda record: timer_levels.entry_code(record, delays_ms),
        fatal=fatal,
        kind=kind,
    )


def new_state(store: Store, config: BrokerConfig, clock: Clock, log: logs.Log) -> BrokerState:
    """Empty."""
    long_polls = WaitingPolls(
        config.waiting_polls_max,
        config.wake_gap_ms,
        gap_ms_max=config.wake_gap_ms_max,
        group_count_max=config.waiting_polls_per_group_max,
    )
    return BrokerState(
        Runtime(config=config, store=store, clock=clock, log=log, long_polls=long_polls)
    )


async def load_broker(
    state: BrokerState, *, warm: bool = False, epoch: int | None = None
) -> Broker:
    """Tables and leases, as the files of the store say. `warm`: the state has positions, leases
    and the catalog already. `epoch`: of a replica's group."""
    runtime, lease_state = state.runtime, state.lease_state
    store, log = runtime.store, runtime.log
    state.catalog_state.identity, is_new = await identify(store, secrets.token_hex(8))
    if is_new and not store.log_end:
        log.warning("broker.empty", data_dir=str(runtime.config.data_dir), means=EMPTY)
    if await parked_leases.bring_in(runtime, lease_state) and warm:
        fresh = new_state(store, runtime.config, runtime.clock, log)
        fresh.timers = state.timers
        return await load_broker(fresh, epoch=epoch)
    files_are_ahead = not warm and await replay.load(state)
    await runtime.damage.saved_quietly()
    broker = Broker(state)
    if files_are_ahead:
        log.warning("log.shorter", means="offsets that were lost with its end are used again")
        broker.catalog.write_all()
        await broker.offsets.write()
    await broker.load_timers()
    broker.older_sends = await known_sends_replay.load_newest(runtime, state.known_sends)
    broker.topics.ensure_own_topics()
    broker.topics.restore()
    await _begin(broker, epoch)
    if epoch is None:  # a replica has to serve soon: its files are written with the next offsets
        await broker.catalog.save()
    return broker


async def _begin(broker: Broker, epoch: int | None) -> None:
    """The log tells of this start, and all settings of a directory of an earlier version. A disk
    that is full leaves it to the next one."""
    try:
        broker.catalog.begin_epoch(epoch)
    except DiskFull as full:
        broker.state.runtime.log.warning("epoch.not_begun", reason=str(full))
        return
    await broker.catalog.write_whole(broker.state.runtime.store.log_start)
