"""A TCP forwarder between proxies and a broker: a network that fails as it is told to."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

CHUNK_BYTES = 1 << 16
T = TypeVar("T")
Way = Literal["lost_in", "lost_out"]


@dataclass(frozen=True)
class Network:
    """How it is just now. `cut_off`: processes whose packets are lost, both ways, without a word;
    `unheard`: only what they send is lost, `untold`: only what is sent to them. New connections of
    all of them are not answered."""

    delay_s: float = 0.0
    cut_off: frozenset[int] = frozenset()
    unheard: frozenset[int] = frozenset()
    untold: frozenset[int] = frozenset()

    @property
    def lost_in(self) -> frozenset[int]:
        """What these send does not arrive."""
        return self.cut_off | self.unheard

    @property
    def lost_out(self) -> frozenset[int]:
        return self.cut_off | self.untold


class Forwarder:
    """In a thread with a loop of its own, so that what the campaign does cannot stop it."""

    def __init__(self, pids: "Pids") -> None:
        """`pids`: whose packets may get lost."""
        self.pids = pids
        self.to_port = 0
        self._network = Network()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(
            asyncio.start_server(self._connected, "127.0.0.1", 0, limit=CHUNK_BYTES)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        """The one to be advertised."""

    def become(self, network: Network) -> None:
        self._run(self._become(network))

    def close(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _become(self, network: Network) -> None:
        self._network = network

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(30)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            pid = self.pids.of_port(writer.get_extra_info("peername")[1])
            await self._while_lost(pid, "lost_in")
            await self._while_lost(pid, "lost_out")
            there = await asyncio.open_connection("127.0.0.1", self.to_port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, there[1], pid, "lost_in"))
                    both.create_task(self._pump(there[0], writer, pid, "lost_out"))
            finally:
                there[1].close()
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side is gone: so is the other
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _while_lost(self, pid: int, way: Way) -> None:
        while pid in getattr(self._network, way):  # noqa: ASYNC110 - it is another thread that mends it
            await asyncio.sleep(0.05)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int, way: Way
    ) -> None:
        """Raises `ConnectionError` at the end, which ends the other direction too."""
        while data := await reader.read(CHUNK_BYTES):
            await self._while_lost(pid, way)
            if self._network.delay_s:
                await asyncio.sleep(self._network.delay_s)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


class Pids:
    """Which process has the other end of a connection: /proc knows."""

    def __init__(self) -> None:
        self.watched: set[int] = set()

    def of_port(self, port: int) -> int:
        """0: none of those watched."""
        inode = _inode_of(port)
        for pid in self.watched:
            try:
                for name in os.listdir(f"/proc/{pid}/fd"):
                    if os.readlink(f"/proc/{pid}/fd/{name}") == f"socket:[{inode}]":
                        return pid
            except OSError:  # it ends just now
                continue
        return 0


def _inode_of(port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[9] != "0":
            return fields[9]
    return ""
