"""What a store must know; the broker's configuration has the reasons."""

from dataclasses import dataclass
from pathlib import Path

from popmq_broker.core.store.index import Sizes
from popmq_common.records import hosts
from popmq_common.units import GiB, MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    data_dir: Path
    segment_bytes: int = GiB
    queue_file_bytes: int = 6_000_000
    sync_flush: bool = True
    async_flush_interval_ms: int = 500
    checkpoint_interval_ms: int = 10_000
    """How often the queues are brought to disk: what a start after a crash must read again."""
    disk_reserve_bytes: int = 256 * MiB
    disk_clean_percent: int = 100
    disk_refuse_percent: int = 100
    store_host: bytes = hosts.LOCAL
    unsynced_bytes_max: int = 256 * MiB
    """Appended and not yet on disk; beyond it sends are refused."""
    open_queue_files_max: int = 512
    unwritten_entry_bytes_max: int = 64 * MiB
    """Queue entries that a full disk does not take; beyond it nothing is appended."""
    index: Sizes | None = None
    """How large index files are; None: there is no index of keys."""
    sync_seconds_max: float = 30.0
    """An fdatasync that takes longer counts as failed."""
