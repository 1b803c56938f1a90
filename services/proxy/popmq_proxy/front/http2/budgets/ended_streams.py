"""Streams of a connection that we have ended early, by their ids.

Their client did not know it when it sent more: what crosses the end on its way is no error. A
client may begin thousands of calls before it reads how many are allowed, and send all of each. So
ids are kept as bits, those next to each other together: 64 of them take some hundred bytes.
"""

from typing import Final

BLOCKS_MAX: Final = 256


class EndedStreams:
    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        """By the first bits of their ids, a bit each; a client's ids are odd."""

    def add(self, stream_id: int) -> None:
        blocks, key = self._blocks, stream_id >> 7
        blocks[key] = blocks.get(key, 0) | 1 << (stream_id >> 1 & 63)
        if len(blocks) > BLOCKS_MAX:
            del blocks[next(iter(blocks))]

    def __contains__(self, stream_id: int) -> bool:
        return bool(self._blocks.get(stream_id >> 7, 0) >> (stream_id >> 1 & 63) & 1)
