"""A transport without a network, for tests that ask when bytes leave."""

import asyncio


class Writes(asyncio.Transport):
    """Keeps each write by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
