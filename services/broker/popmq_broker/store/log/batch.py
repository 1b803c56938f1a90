"""Records that are appended together: where each goes, and the bytes to write.

A record that does not fit what is left of a file goes to the next one; a blank fills the rest.
One piece of bytes per file comes out.
"""

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
        self.parts: list[bytes] = []
        """The records of this file, each in pieces."""
        self._done: list[Piece] = []

    def place(self, size_bytes: int) -> int:
        """Where a record of this size goes: its pieces come next into `parts`. Raises
        `BadRequest` if no file can hold it."""
        log_offset = self.end
        if log_offset + size_bytes + rec.BLANK_BYTES > self._file_end:
            if size_bytes + rec.BLANK_BYTES > self._segment_bytes:
                raise BadRequest(
                    reason=f"a record of {size_bytes} bytes does not fit in a file of "
                    f"segment_bytes={self._segment_bytes}"
                )
            self.parts.append(rec.blank(self._file_end - log_offset))
            self._close_piece()
            log_offset = self._piece_start = self._file_end
            self._file_end += self._segment_bytes
        self.end = log_offset + size_bytes
        return log_offset

    def pieces(self) -> list[Piece]:
        self._close_piece()
        return self._done

    def _close_piece(self) -> None:
        if self.parts:
            self._done.append(Piece(self._piece_start, b"".join(self.parts)))
            self.parts = []
