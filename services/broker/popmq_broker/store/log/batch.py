"""Records that are appended together: where each goes, and the bytes to write.

A record that does not fit what is left of a file goes to the next one; a blank fills the rest.
One piece of bytes per file comes out.
"""

from collections.abc import Sequence
from typing import NamedTuple

from popmq_common.errors import BadRequest
from popmq_common.records import record as rec


class Piece(NamedTuple):
    """Bytes for one file."""

    log_offset: int
    data: bytes


class Batch:
    def __init__(self, log_end: int, segment_bytes: int) -> None:
        self.end = log_end
        """Where the next record goes, unless it must roll."""
        self._segment_bytes = segment_bytes
        self._file_end = log_end - log_end % segment_bytes + segment_bytes
        self._piece_start = log_end
        self._parts: list[bytes] = []
        self._done: list[Piece] = []

    def place(self, size_bytes: int) -> int:
        """Where a record of this size goes. Raises `BadRequest` if no file can hold it."""
        if self.end + size_bytes + rec.BLANK_BYTES > self._file_end:
            if size_bytes + rec.BLANK_BYTES > self._segment_bytes:
                raise BadRequest(
                    reason=f"a record of {size_bytes} bytes does not fit in a file of "
                    f"segment_bytes={self._segment_bytes}"
                )
            self._parts.append(rec.blank(self._file_end - self.end))
            self._close_piece()
            self.end = self._piece_start = self._file_end
            self._file_end += self._segment_bytes
        return self.end

    def add(self, record: Sequence[bytes], size_bytes: int) -> None:
        """The record, in pieces, at the place that `place` gave."""
        self._parts += record
        self.end += size_bytes

    def pieces(self) -> list[Piece]:
        self._close_piece()
        return self._done

    def _close_piece(self) -> None:
        if self._parts:
            self._done.append(Piece(self._piece_start, b"".join(self._parts)))
            self._parts = []
