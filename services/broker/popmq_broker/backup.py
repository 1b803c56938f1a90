"""`popmq store backup`: the files are copied while the broker runs, then the copy is settled."""

from dataclasses import replace

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.store.files import segments
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.offline.directory_copy import LOG, Copied, copy
from popmq_common.process.clock import SystemClock

__all__ = ["Copied", "copy", "settle"]


async def settle(config: BrokerConfig) -> None:
    """Make of the copy what a clean stop leaves: a start, and a stop. Raises as `open_engine`."""
    found = segments.numbered(OsFiles(), config.data_dir / LOG)
    segment_bytes = max((size for _, size in found), default=config.segment_bytes)
    broker = await open_engine(replace(config, segment_bytes=segment_bytes), SystemClock())
    await broker.close()
