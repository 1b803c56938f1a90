"""`popmq store backup`: the files are copied while the broker runs, then the copy is settled."""

from dataclasses import replace

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.replication.epochs import EPOCHS_FILE
from popmq_broker.engine.replication.directory import REPLICA_FILE
from popmq_broker.store.files import segments
from popmq_broker.store.files.files import OsFiles
from popmq_broker.store.offline.directory_copy import LOG, Copied, copy
from popmq_common.process.clock import SystemClock

__all__ = ["Copied", "copy", "settle"]


async def settle(config: BrokerConfig) -> None:
    """Make of the copy what a clean stop leaves: a start, and a stop. Raises as `open_engine`.

    The copy of a replica is one no more: it is the directory of a broker by itself.
    """
    files = OsFiles()
    for name in (REPLICA_FILE, EPOCHS_FILE):
        files.remove(config.data_dir / "config" / name)
    found = segments.numbered(files, config.data_dir / LOG)
    segment_bytes = max((size for _, size in found), default=config.segment_bytes)
    alone = replace(config, replica="", segment_bytes=segment_bytes)
    broker = await open_engine(alone, SystemClock())
    await broker.close()
