"""popmq-pipelines stream: what it says when, whatever the audit of a snapshot says."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.log_writer import LogWriter

from popmq_pipelines import __main__ as program
from popmq_pipelines.audit.verdict import AuditVerdict, Report
from popmq_pipelines.command_parts import OVERLAPS, USAGE, alone_in
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs import backfill as backfilling
from popmq_pipelines.stream_commands import ArrivingSnapshots, AuditStopped


class Audits:
    """In the place of `backfill`: says of each snapshot that has come what it is told to."""

    def __init__(self, snapshots: Path, verdict: AuditVerdict) -> None:
        self._snapshots = snapshots
        self.verdict = verdict
        self._told: set[str] = set()

    def backfill(
        self, *_: object, tell: Callable[[Report, Path], None], **_options: object
    ) -> None:
        for folder in sorted(self._snapshots.iterdir()):
            if folder.name not in self._told:
                self._told.add(folder.name)
                tell(Report(snapshot_id=folder.name, verdict=self.verdict), folder)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Place":
    return Place(tmp_path, monkeypatch)


class Place:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.snapshots, self.out = folder / "snapshots", folder / "out"
        self._log = LogWriter(folder / "data")
        self.audits = Audits(self.snapshots, AuditVerdict.PASS)
        monkeypatch.setattr(backfilling, "backfill", self.audits.backfill)
        self.taken_s = 0.0

    def arrive(self, name: str) -> None:
        self._log.send(name)
        manifest = export(self._log.data_dir, self.snapshots / name, name)
        self.taken_s = manifest.taken_ms / 1000

    def stream(self, **options: Any) -> ArrivingSnapshots:
        given = {"max_age_s": 600.0, "html": None, "markdown": None, "prometheus": None}
        named = argparse.Namespace(
            snapshots=self.snapshots, out=self.out, grace_s=0.0, json=True, **(given | options)
        )
        return ArrivingSnapshots(None, named)  # type: ignore[arg-type]


def verdicts(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]


def test_that_no_snapshot_comes_is_said_once_until_one_comes(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.arrive("s1")
    stream = place.stream()
    now_s = place.taken_s
    stream.look_at_age(now_s + 10_000, 60)  # it has not been audited yet
    assert verdicts(capsys) == []
    stream.audit()
    stream.look_at_age(now_s + 10_061, 60)
    stream.look_at_age(now_s + 10_062, 60)
    stream.look_at_age(now_s + 20_000, 60)
    assert verdicts(capsys) == ["PASS", "INCOMPLETE"]
    place.arrive("s2")
    stream.audit()
    stream.look_at_age(now_s + 30_000, 60)
    assert verdicts(capsys) == ["PASS", "INCOMPLETE"]


def test_a_fault_is_not_hidden_behind_a_late_snapshot(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.arrive("s1")
    place.audits.verdict = AuditVerdict.FAIL
    stream = place.stream()
    stream.audit()
    stream.look_at_age(place.taken_s + 10_000, 60)
    assert stream.ended(place.taken_s + 10_000) == 1
    assert verdicts(capsys) == ["FAIL"]


@pytest.mark.parametrize(("later_s", "code"), [(10, 0), (10_000, 4)])
def test_once_it_ends_with_the_last_verdict_unless_the_snapshot_is_old(
    place: Place, later_s: float, code: int
) -> None:
    place.arrive("s1")
    stream = place.stream()
    stream.audit()
    assert stream.ended(place.taken_s + later_s) == code


def test_what_arrives_when_it_is_being_stopped_is_left_to_the_next(place: Place) -> None:
    place.arrive("s1")
    stream = place.stream()
    stream.stop()
    with pytest.raises(AuditStopped):
        stream.audit()
    assert stream.refused


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--every-s", "0"], "more than 0 is needed"),
        (["--grace-s", "-1"], "at least 0 is needed"),
        (["--snapshots", "nowhere"], "is no directory"),
    ],
)
def test_what_it_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], why: str
) -> None:
    given = ["stream", "--snapshots", str(tmp_path), "--out", str(tmp_path / "out"), *more]
    assert program.main(given) == USAGE
    assert why in capsys.readouterr().err


def test_another_audit_in_the_same_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["stream", "--snapshots", str(tmp_path), "--out", str(tmp_path)]
    with alone_in(tmp_path):
        assert program.main(given) == OVERLAPS
    assert "another audit is under way" in capsys.readouterr().err
