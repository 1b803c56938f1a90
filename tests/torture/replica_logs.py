"""What replicas have on disk when all of them were killed: is it the same, is it sound, and which
messages are in which queues?"""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.processes import POPMQ

from popmq_broker.store.offline.closed_directory import dump_log
from popmq_common.records import properties
from popmq_common.records.record import is_queued
from torture.history import ReplicaLog, Stored

CHUNK_BYTES = 1 << 20
CHECK_S = 300.0
DAMAGE_MAX = 5


def stored(broker: str, data_dir: Path, commit_point: int, start: str) -> Iterator[Stored]:
    """The messages of topics whose name begins with `start`."""
    for shown in dump_log(data_dir, 0, "", -1):
        record = shown.record
        if record is None or record.log_offset >= commit_point:
            return
        if is_queued(record) and record.topic.startswith(f"{start}-"):
            yield Stored(
                broker=broker,
                topic=record.topic,
                queue_id=record.queue_id,
                queue_offset=record.queue_offset,
                body=record.body.decode(),
                message_id=properties.decode(record.properties).get(properties.UNIQ_KEY, ""),
            )


def compared(
    broker: str, folders: Mapping[str, Path], commit_points: Mapping[str, int]
) -> list[ReplicaLog]:
    """`folders`: data directory of each replica; the first one is what the others must be like, up
    to the highest commit point that any of them knows, as all were in sync."""
    end = max(commit_points.values())
    logs = {replica: LogBytes(folder) for replica, folder in folders.items()}
    model = next(iter(logs.values()))
    return [
        ReplicaLog(
            broker=broker,
            replica=replica,
            log_start=log.start,
            log_end=log.end,
            commit_point=commit_points[replica],
            compared_end=end,
            differs_at=model.differs_at(log, end),
            damage=damage_of(folders[replica]),
        )
        for replica, log in logs.items()
    ]


class LogBytes:
    """A log, read as a file system has it."""

    def __init__(self, data_dir: Path) -> None:
        self._files = {int(path.name): path for path in (data_dir / "commitlog").iterdir()}

    @property
    def start(self) -> int:
        return min(self._files)

    @property
    def end(self) -> int:
        """Of the files; zeros may follow the last record."""
        last = max(self._files)
        return last + self._files[last].stat().st_size

    def read(self, start: int, end: int) -> bytes:
        """Bytes that are there, of one file; none at its end."""
        base = max((one for one in self._files if one <= start), default=-1)
        if base < 0:
            return b""
        with open(self._files[base], "rb") as file:
            file.seek(start - base)
            return file.read(min(end - start, CHUNK_BYTES))

    def differs_at(self, other: "LogBytes", end: int) -> int | None:
        """The first byte before `end` that is not the same, or is missing in one of them."""
        at = max(self.start, other.start)
        while at < end:
            ours, theirs = self.read(at, end), other.read(at, end)
            both = min(len(ours), len(theirs))
            if ours[:both] != theirs[:both] or not both:
                pairs = zip(ours, theirs, strict=False)
                return at + next((i for i, (a, b) in enumerate(pairs) if a != b), both)
            at += both
        return None


def damage_of(data_dir: Path) -> tuple[str, ...]:
    """What `popmq store check` finds."""
    done = subprocess.run(
        [POPMQ, "store", "check", str(data_dir)], capture_output=True, timeout=CHECK_S, check=False
    )
    if done.returncode == 0:
        return ()
    lines: Sequence[str] = (done.stdout + done.stderr).decode().splitlines()
    return tuple(lines[:DAMAGE_MAX]) or (f"store check ended with {done.returncode}",)
