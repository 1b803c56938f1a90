"""The command line: what it does without Spark, and what it says when something is missing."""

import subprocess
import sys
from pathlib import Path

import pytest
from harness.log_writer import LogWriter

from popmq_pipelines.__main__ import CRASHED, main
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.snapshot.manifest import MANIFEST
from popmq_pipelines.tables import session


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    log = LogWriter(tmp_path / "data")
    log.send("m0")
    log.ack(log.pop(0))
    log.save_offsets()
    return log.data_dir


def test_export_tells_what_it_wrote(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "snap")
    assert main(["export", "--data-dir", str(data_dir), "--out", out, "--snapshot-id", "s1"]) == 0
    assert "Snapshot s1 in" in capsys.readouterr().out
    assert (tmp_path / "snap" / MANIFEST).exists()
    assert main(["export", "--data-dir", str(data_dir), "--out", out]) == 2
    assert "already" in capsys.readouterr().err


def test_export_warns_of_what_makes_an_audit_incomplete(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data_dir / "config" / "consumerOffset.json").write_text("{")
    assert main(["export", "--data-dir", str(data_dir), "--out", str(tmp_path / "snap")]) == 0
    assert "incomplete: " in capsys.readouterr().out


def test_show(data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snap = str(tmp_path / "snap")
    main(["export", "--data-dir", str(data_dir), "--out", snap])
    capsys.readouterr()
    asked = ["show", "--snapshot", snap, "--topic", "orders", "--queue", "0", "--offset"]
    assert main([*asked, "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main([*asked, "9"]) == 2
    assert main(["show", "--snapshot", "nowhere", *asked[3:], "0"]) == 2


def test_audit_makes_the_directory_of_its_reports(tmp_path: Path) -> None:
    out = tmp_path / "new" / "audits"
    asked = ["audit", str(tmp_path / "broker-a"), "--out", str(out)]
    assert main(asked) == AuditVerdict.INCOMPLETE.exit_code  # there is no such broker
    assert (out / "broker-a.prom").exists()


def test_audit_says_where_it_cannot_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "audits"
    assert main(["audit", str(tmp_path / "broker-a"), "--out", str(out)]) == 2
    assert f"no reports can be written into {out}: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["reconcile", "--snapshot", "nowhere"], ["reconcile", "--snapshot", ".", "--grace-s", "-1"]],
)
def test_what_cannot_be_reconciled(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("popmq_pipelines: ")


@pytest.mark.parametrize("arguments", [[], ["dance"], ["export"], ["reconcile"]])
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("pyarrow", ["export", "--data-dir", ".", "--out", "snap"]),
        ("pyspark", ["reconcile", "--snapshot", "."]),
    ],
)
def test_a_missing_package_is_one_line_with_the_command_that_mends_it(
    package: str, arguments: list[str], tmp_path: Path
) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from popmq_pipelines.__main__ import main\n"
        f"sys.exit(main({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"popmq_pipelines: {package} is not installed: pip install 'popmq[pipelines]'\n"
    )


def test_missing_java_is_one_line_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(session.JavaMissing):
        session.start("test", {"JAVA_HOME": str(tmp_path)})
    assert main(["reconcile", "--snapshot", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "apt-get install openjdk-17-jre-headless" in line


def test_a_crash_does_not_look_like_a_verdict(tmp_path: Path) -> None:
    """Here: by a file that is no Parquet."""
    (tmp_path / "commitlog_index.parquet").write_bytes(b"junk")
    asked = ["show", "--snapshot", str(tmp_path), "--topic", "t", "--queue", "0", "--offset", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "popmq_pipelines", *asked],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == CRASHED
    assert "Traceback" in done.stderr
