"""popmq-pipelines lake: one line for what was done, and for what went wrong."""

import sys
from pathlib import Path

import pytest
from harness.audit_folder import AuditFolder

from popmq_pipelines import lake
from popmq_pipelines.__main__ import main
from popmq_pipelines.command_parts import USAGE


def test_it_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    AuditFolder(tmp_path / "audit").run({})
    arguments = ["lake", "--out", str(tmp_path / "audit"), "--into", str(tmp_path / "lake")]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert capsys.readouterr().out == (
        "broker-a: 1 tables written, 1 partitions new or changed, 0 expired\n"
        "broker-a: 0 tables written, 0 partitions new or changed, 0 expired\n"
    )


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["lake", *map(str, arguments)]) == USAGE
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told


def test_a_folder_without_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = failure(capsys, "--out", tmp_path, "--into", tmp_path / "lake")
    assert "No audit lies there" in told


def test_two_audits_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "other"):
        AuditFolder(tmp_path / name).run({})
    both = (tmp_path / "one", tmp_path / "other")
    assert "broker-a" in failure(capsys, "--out", *both, "--into", tmp_path / "lake")


def test_a_lake_that_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    AuditFolder(tmp_path / "audit").run({})
    arguments = ("--out", tmp_path / "audit", "--into", tmp_path / "lake")
    assert main(["lake", *map(str, arguments)]) == 0
    log = tmp_path / "lake" / "recon_run" / "_delta_log"
    for file in log.glob("*.json"):
        file.write_text("nonsense")
    assert "The lake cannot be read or written" in failure(capsys, *arguments)


def test_days_below_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = failure(capsys, "--out", tmp_path, "--into", tmp_path, "--keep-days", "-1")
    assert "--keep-days" in told


def test_without_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("delta_table", "publish"):
        monkeypatch.delitem(sys.modules, f"popmq_pipelines.lake.{name}", raising=False)
        monkeypatch.delattr(lake, name, raising=False)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    told = failure(capsys, "--out", tmp_path, "--into", tmp_path / "lake")
    assert told.endswith("deltalake is not installed: pip install 'popmq[lake]'\n")
