"""Reads the CommitLog of a data directory without touching it, of a live broker too.

The scan ends where no whole record begins: at the end of the log, or at a record that is just
being written.
"""

import mmap
from collections.abc import Generator, Iterator
from pathlib import Path

from popmq_broker.core import record as rec
from popmq_broker.core.record import Record
from popmq_common.errors import Corrupt


def records(commit_log: Path) -> Iterator[Record]:
    """Every record, oldest first. Raises `FileNotFoundError` when there is no CommitLog."""
    for path in sorted(path for path in commit_log.iterdir() if path.name.isdigit()):
        base = int(path.name)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            ended = yield from _file_records(data, base, str(path))
        if not ended:
            return


def _file_records(data: mmap.mmap, base: int, where: str) -> Generator[Record, None, bool]:
    """Returns whether the file ended with a blank, so that the next one goes on."""
    at = 0
    while at + rec.BLANK_BYTES <= len(data):
        total, magic = rec.peek(data[at : at + rec.BLANK_BYTES])
        if magic == rec.MAGIC_BLANK:
            return True
        if not 0 < total <= len(data) - at:
            return False
        try:
            record = rec.decode(data[at : at + total], where=where, log_offset=base + at)
        except Corrupt:
            return False
        yield record
        at += total
    return True
