"""Damage to the files of a broker, as a disk does it behind its back."""

from pathlib import Path

from popmq_broker.core.store.queue_entry import ENTRY_BYTES, QueueEntry
from popmq_broker.engine.broker import Broker
from popmq_broker.store.offline import closed_directory
from popmq_pipelines.export.log_reader import LogScan

ZEROS = bytes(ENTRY_BYTES)


def entry(broker: Broker, topic: str, queue_id: int, offset: int) -> QueueEntry:
    (found,) = broker.state.runtime.store.entries(topic, queue_id, offset, 1)
    return found


def damage_entry(
    data_dir: Path, topic: str, queue_id: int, offset: int, data: bytes = ZEROS, at: int = 0
) -> None:
    """Bytes of the entry, from its byte `at` on, are others. The entry must be in a file."""
    place = offset * ENTRY_BYTES + at
    for path in sorted((data_dir / "consumequeue" / topic / str(queue_id)).iterdir()):
        base, size_bytes = int(path.name), path.stat().st_size
        if base <= place < base + size_bytes:
            _write(path, place - base, data)
            return
    raise AssertionError(f"no file has entry {offset}")


def damage_log(data_dir: Path, log_offset: int, size_bytes: int = 4) -> None:
    """Flip bytes of the log from there on."""
    for path in sorted((data_dir / "commitlog").iterdir()):
        base = int(path.name)
        if base <= log_offset < base + path.stat().st_size:
            with open(path, "rb") as file:
                file.seek(log_offset - base)
                before = file.read(size_bytes)
            _write(path, log_offset - base, bytes(byte ^ 0xFF for byte in before))
            return
    raise AssertionError(f"no file has offset {log_offset}")


def lose_end(data_dir: Path, topic: str, messages: int) -> None:
    """Cut the log before the topic's last messages, as `popmq store truncate` does: the broker,
    which must not run, starts and knows of nothing."""
    scan = LogScan(data_dir / "commitlog")
    places = [one.record.log_offset for one in scan if one.record.topic == topic]
    closed_directory.cut_log(data_dir, places[-messages])


def _write(path: Path, at: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)
