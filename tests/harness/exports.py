"""Snapshots of an `EngineDriver`'s broker, made by the exporter in the test's own process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from harness.broker import EngineDriver

from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.export import export_process
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.columns import STATE_TABLES

Rows = list[tuple[Any, ...]]


async def in_this_process(order: str, tell: Callable[[int], None]) -> dict[str, Any]:
    return export_process.result(export_process.run(export_process.read_request(order), tell))


def export(driver: EngineDriver, *, whole: bool = False) -> link.FinishedExport:
    """Its configuration has `export_dir`. Two never begin in one millisecond."""
    driver.clock.advance(1)

    async def step() -> link.FinishedExport:
        exports = driver.broker.exports
        exports.exporter = in_this_process
        await exports.begin(link.ExportSnapshot(whole=whole))
        assert exports.running is not None
        await exports.running
        return (await exports.status(link.ExportStatus())).last

    return driver.run(step())


def table(folder: Path, name: str) -> Rows:
    """Of a snapshot and those it goes on from, in the order of the log."""
    rows: Rows = []
    for path in follow(folder).files(name):
        rows += [tuple(row.values()) for row in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(rows) if name in STATE_TABLES else rows
