"""Snapshots for the audit, made without stopping: the broker tells how far, another process reads.

The watermarks are taken in one go: where the log ends, and with it every queue, and where the
groups are. What comes behind them is in the next snapshot. Positions are taken first and rest on
records before the watermark, so a snapshot never knows of a position whose lease it has not.

While it is made, the log keeps the files that were there at its begin. One at a time; there is
none of a broker that has died, as its manifest is written last.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from popmq_broker.clients import exporter
from popmq_broker.clients.exporter import Exporter, Result
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable
from popmq_broker.core.store.snapshot_id import make_id
from popmq_broker.engine.groups.offsets import Offsets
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.queues.queue_ends import QueueEnds
from popmq_common.errors import ExportRunning, ExportsNothing
from popmq_internal.v1 import link_pb2 as link


@dataclass(slots=True)
class _Running:
    started_ms: int
    snapshot_id: str = "that begins"
    log_start: int = 0
    rows: int = 0

    def tell(self, rows: int) -> None:
        self.rows = rows


class Exports:
    def __init__(self, runtime: Runtime, positions: Offsets) -> None:
        self.exporter: Exporter = exporter.run
        """A test may put its own here."""
        self._runtime = runtime
        self._positions = positions
        self._running_since_ms = runtime.clock.now_ms()
        self._running: _Running | None = None
        self._last: link.FinishedExport | None = None
        self.ended = {"complete": 0, "failed": 0}
        """How many, by outcome."""
        self.completed_ms: int | None = None
        """When the last complete one ended."""
        self.running: asyncio.Task[None] | None = None
        """The one that was begun last; it may have ended."""
        runtime.retention_holds["export"] = lambda: (
            self._running.log_start if self._running else None
        )

    async def begin(self, request: link.ExportSnapshot) -> link.ExportReply:
        """Raises `ExportsNothing`, `ExportRunning`, `StoreClosed`."""
        runtime = self._runtime
        if not runtime.config.export_dir:
            raise ExportsNothing(broker=runtime.config.name)
        if self._running is not None:
            running = self._running.snapshot_id
            raise ExportRunning(broker=runtime.config.name, snapshot_id=running)
        running_now = _Running(runtime.clock.now_ms(), log_start=runtime.store.log_start)
        self._running = running_now
        try:
            table = self._positions.table()
            await runtime.store.settled()
        except BaseException:
            self._running = None
            raise
        marks, now_ms = runtime.store.watermarks(), runtime.clock.now_ms()
        running_now.log_start = marks.log_start
        running_now.snapshot_id = make_id(runtime.config.name, now_ms, marks.log_end)
        order = partial(self._order, table, marks, now_ms, whole=request.whole)
        self.running = asyncio.create_task(self._run(running_now, order), name="export")
        return await self.status(link.ExportStatus())

    async def status(self, request: link.ExportStatus) -> link.ExportReply:
        reply = link.ExportReply(last=self._last)
        if self._running is not None:
            reply.snapshot_id = self._running.snapshot_id
            reply.started_ms = self._running.started_ms
            reply.rows = self._running.rows
        return reply

    async def stop(self) -> None:
        """The exporter is ended; what it has written is no snapshot."""
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)

    def _order(self, table: OffsetTable, marks: QueueEnds, now_ms: int, *, whole: bool) -> str:
        """As JSON; made in a thread, as there may be many queues."""
        config = self._runtime.config
        queues: dict[str, dict[str, tuple[int, int]]] = {}
        for (topic, queue_id), ends in marks.queues.items():
            queues.setdefault(topic, {})[str(queue_id)] = (ends.first, ends.next)
        fields = {
            "dataDir": str(config.data_dir.absolute()),
            "into": f"{config.export_dir.rstrip('/')}/{config.name}",
            "snapshotId": make_id(config.name, now_ms, marks.log_end),
            "whole": whole,
            "rowsPerS": config.export_rows_per_s,
            "bytesPerS": config.export_bytes_per_s,
            "chainMax": config.export_chain_max,
            "keep": config.export_keep,
            "watermarks": {
                "broker": config.name,
                "cluster": config.cluster,
                "logStart": marks.log_start,
                "logEnd": marks.log_end,
                "asOfMs": now_ms,
                "runningSinceMs": self._running_since_ms,
                "offsets": offsets.encode(table, now_ms),
                "queues": queues,
            },
        }
        return json.dumps(fields)

    async def _run(self, running: _Running, order: Callable[[], str]) -> None:
        runtime = self._runtime
        try:
            text = await asyncio.to_thread(order)
            result = await self.exporter(text, running.tell)
        except OSError as wrong:  # no process could be started
            result = {"failed": str(wrong)}
        finally:
            self._running = None
        ended_ms = runtime.clock.now_ms()
        self._last = _finished(result, running, ended_ms)
        if self._last.failure:
            self.ended["failed"] += 1
            runtime.log.error("export.failed", reason=self._last.failure)
            return
        self.ended["complete"] += 1
        self.completed_ms = ended_ms
        runtime.log.info(
            "export.done",
            snapshot=self._last.snapshot_id,
            rows=self._last.rows,
            ms=self._last.duration_ms,
            problems=len(self._last.problems),
        )


def _finished(result: Result, running: _Running, ended_ms: int) -> link.FinishedExport:
    duration_ms = ended_ms - running.started_ms
    if "failed" in result:
        return link.FinishedExport(
            snapshot_id=running.snapshot_id, ended_ms=ended_ms, failure=str(result["failed"])
        )
    return link.FinishedExport(
        snapshot_id=result["snapshotId"],
        ended_ms=ended_ms,
        place=result["place"],
        whole=result["whole"],
        why_whole=result["why"],
        rows=result["rows"],
        size_bytes=result["bytes"],
        log_from=result["logFrom"],
        log_end=result["logEnd"],
        duration_ms=duration_ms,
        problems=result["problems"],
        removed=result["removed"],
    )
