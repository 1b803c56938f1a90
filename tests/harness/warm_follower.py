"""A replica that follows a broker of a test, and keeps its state warm."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from harness.broker import EngineDriver

from popmq_broker.config import BrokerConfig
from popmq_broker.core.replication.whole_records import whole_bytes
from popmq_broker.engine.journal.state import BrokerState
from popmq_broker.engine.replication.warm_state import WarmState
from popmq_broker.opening import new_state, open_directory
from popmq_broker.store.replica_store import ReplicaStore
from popmq_common.process import logs

LOG = logs.get("test")
PIECE_BYTES = 1_000


class Follower:
    """Of a broker in a test: its bytes, and its files now and then."""

    def __init__(self, driver: EngineDriver, folder: Path, **settings: Any) -> None:
        self._driver = driver
        self._folder = folder
        self.config = BrokerConfig(
            data_dir=folder, segment_bytes=8 * 1024, queue_file_bytes=200, index=False, **settings
        )
        driver.run(self._open())

    async def _open(self) -> None:
        self.store = await open_directory(self.config, LOG, _fatal, ReplicaStore)
        self.warm = WarmState(self.store, self.empty, LOG)
        self.keeping = asyncio.create_task(self.warm.keep())

    def start_again(self) -> None:
        async def start_again() -> None:
            await self._keep_no_more()
            await self.store.close()
            await self._open()

        self._driver.run(start_again())

    async def _keep_no_more(self) -> None:
        self.keeping.cancel()
        await asyncio.gather(self.keeping, return_exceptions=True)

    def empty(self, store: ReplicaStore) -> BrokerState:
        return new_state(store, self.config, self._driver.clock, LOG)

    def fetch(self) -> None:
        """All that is committed, of one file of the log after the other."""
        primary = self._driver.broker.state.runtime.store

        async def fetch() -> None:
            while (at := self.store.log_end) < primary.committed_end:
                data = primary.raw(at, PIECE_BYTES) or b""
                data = data if whole_bytes(data) else primary.raw(at, 1 << 20)
                self.store.take(data[: whole_bytes(data)])
                self.store.commit(self.store.log_end)
                await asyncio.sleep(0)
            self.store.commit(self.store.log_end)
            await asyncio.sleep(0)

        self._driver.run(fetch())

    def copy_files(self) -> None:
        self._driver.run(self._driver.broker.offsets.write())
        self.fetch()
        for path in (self._driver.data_dir / "config").glob("*.json"):
            shutil.copy(path, self._folder / "config" / path.name)

    async def lead(self) -> None:
        """Its log is all there is from now on."""
        await self._keep_no_more()
        await self.store.lead()

    def close(self) -> None:
        self.store.abandon()


def _fatal(failed: BaseException) -> None:
    raise AssertionError("the disk failed") from failed
