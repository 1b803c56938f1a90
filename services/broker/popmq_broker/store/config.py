"""What a store must know; the broker's configuration has the reasons."""

from dataclasses import dataclass
from pathlib import Path

from popmq_common import hosts
from popmq_common.units import GiB, MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    data_dir: Path
    segment_bytes: int = GiB
    queue_file_bytes: int = 6_000_000
    sync_flush: bool = True
    async_flush_interval_ms: int = 500
    checkpoint_interval_ms: int = 10_000
    disk_reserve_bytes: int = 256 * MiB
    store_host: bytes = hosts.LOCAL
