"""`popmq store rebuild`: what a start makes again, made again at once."""

from dataclasses import replace

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.engine.groups.offsets import OFFSETS_FILE
from popmq_broker.store.offline.closed_directory import prepare_rebuild
from popmq_common.process.clock import SystemClock


async def rebuild(config: BrokerConfig, *, offsets: bool) -> None:
    """Make the queues again from the log, and with `offsets` the positions from the journal.

    What a start does when they are missing, followed by a clean stop. Raises as `open_store`.
    """
    segment_bytes = prepare_rebuild(config.data_dir, [OFFSETS_FILE] if offsets else [])
    broker = await open_engine(replace(config, segment_bytes=segment_bytes), SystemClock())
    await broker.close()
