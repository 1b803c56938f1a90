"""Snapshots that are audited as they arrive: the same bytes as all of them at once, whatever ends
the stream between."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.audit_histories import FAULTS, World
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession

from popmq_pipelines.jobs import stream
from popmq_pipelines.jobs.backfill import backfill
from popmq_pipelines.jobs.reconcile import GRACE_MS
from popmq_pipelines.snapshot.columns import AUDIT_TABLES
from popmq_pipelines.tables import session

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]
SEED = int(os.environ.get("AUDIT_SEED", "1"))
NAMES = ("s1", "s2")
WAIT_S = 120.0
FAULT_COUNT = 4


@pytest.fixture(scope="module", autouse=True)
def _few_rows(spark: SparkSession) -> Iterator[None]:
    """As users have it: few rows are judged in one task."""
    spark.conf.set(session.LITTLE, str(session.LITTLE_ROWS))
    yield
    spark.conf.set(session.LITTLE, "0")


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two that go on from each other, with faults in the second."""
    print(f"AUDIT_SEED={SEED}")
    folder = tmp_path_factory.mktemp("snapshots")
    world = World(SEED, FAULT_COUNT + 2)
    for number, name in enumerate(NAMES):
        world.live(60)
        if number == 1:
            world.plant(FAULTS[:FAULT_COUNT])
        world.settle()
        world.log.cut(folder / name, goes_on=folder / NAMES[number - 1] if number else None)
    return folder


def tables(out: Path) -> dict[str, bytes]:
    files = [file for name in sorted(AUDIT_TABLES) for file in (out / name).rglob("*.parquet")]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


class Place:
    """A folder where snapshots arrive, and the audit of it."""

    def __init__(self, spark: SparkSession, folder: Path, source: Path) -> None:
        self.snapshots, self.out, self._spark, self._source = (
            folder / "arriving",
            folder / "out",
            spark,
            source,
        )
        self.snapshots.mkdir()
        self.judged: list[str] = []

    def arrive(self, *names: str) -> None:
        """As an exporter has it: the manifest last, and in one step."""
        for name in names:
            to = self.snapshots / name
            shutil.copytree(self._source / name, to, ignore=shutil.ignore_patterns("manifest.json"))
            shutil.copy(self._source / name / "manifest.json", to / "manifest.tmp")
            (to / "manifest.tmp").rename(to / "manifest.json")

    def audit(self) -> None:
        backfill(
            self._spark,
            self.snapshots,
            self.out,
            since=None,
            until=None,
            grace_ms=GRACE_MS,
            tell=lambda _, folder: self.judged.append(folder.name),
        )

    def once(self, audit: Callable[[], None] | None = None) -> None:
        query = stream.begin(
            self._spark, self.snapshots, self.out, audit or self.audit, every_s=None
        )
        query.awaitTermination()


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, snapshots: Path) -> Place:
    return Place(spark, tmp_path, snapshots)


@pytest.fixture(scope="module")
def at_once(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, snapshots: Path
) -> dict[str, bytes]:
    """What `backfill` writes."""
    place = Place(spark, tmp_path_factory.mktemp("at-once"), snapshots)
    place.arrive(*NAMES)
    place.audit()
    found = tables(place.out)
    assert len(found) >= 2 * 4
    return found


def test_stopped_and_started_between_snapshots_it_writes_the_same_bytes(
    place: Place, at_once: dict[str, bytes]
) -> None:
    """Also when it ends after an audit that its checkpoint does not know of."""

    def crash() -> None:
        place.audit()
        raise RuntimeError("the machine is gone")

    place.once()
    assert place.judged == []
    place.arrive("s1")
    place.once()
    assert place.judged == ["s1"]
    place.arrive("s2")
    with pytest.raises(StreamingQueryException, match="the machine is gone"):
        place.once(crash)
    place.once()
    place.once()
    assert place.judged == list(NAMES)
    assert tables(place.out) == at_once


class Command:
    """`popmq-pipelines stream`, in a process of its own."""

    def __init__(self, place: Place, *more: str) -> None:
        command = [sys.executable, "-m", "popmq_pipelines", "stream", "--json"]
        command += ["--snapshots", str(place.snapshots), "--out", str(place.out), *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def report(self) -> str:
        """The next one."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ended(self) -> int:
        self.process.communicate(timeout=WAIT_S)
        return self.process.returncode


def test_the_command_goes_on_until_it_is_stopped(place: Place, at_once: dict[str, bytes]) -> None:
    place.arrive("s1")
    command = Command(place, "--every-s", "0.5")
    assert '"verdict": "PASS"' in command.report()
    assert Command(place, "--once").ended() == 75
    place.arrive("s2")
    assert '"verdict": "FAIL"' in command.report()
    command.process.send_signal(signal.SIGTERM)
    assert command.ended() == 0
    assert tables(place.out) == at_once
    again = Command(place, "--once")
    assert '"verdict": "FAIL"' in again.report()
    assert again.ended() == 1
