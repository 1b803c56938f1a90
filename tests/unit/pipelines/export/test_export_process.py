"""The exporter's process: an order in, what it did out, or a line with why it could not."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.log_writer import LogWriter

from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable
from popmq_pipelines.export import export_process
from popmq_pipelines.export.rate_limit import RECORDS_PER_SLICE
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.manifest import MANIFEST


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    written = LogWriter(tmp_path / "data")
    written.send("m0")
    written.ack(written.pop(0))
    return written


def order(log: LogWriter, into: Path, **fields: Any) -> dict[str, Any]:
    table = OffsetTable(log.end, log.positions)
    queues: dict[str, dict[str, tuple[int, int]]] = {}
    for (topic, queue_id), count in log.stored.items():
        queues.setdefault(topic, {})[str(queue_id)] = (0, count)
    return {
        "dataDir": str(log.data_dir),
        "into": str(into),
        "snapshotId": f"broker-a-{log.now_ms}-{log.end}",
        "whole": False,
        "rowsPerS": 0,
        "bytesPerS": 0,
        "chainMax": 10,
        "keep": 2,
        "watermarks": {
            "broker": "broker-a",
            "cluster": "test",
            "logStart": 0,
            "logEnd": log.end,
            "asOfMs": log.now_ms,
            "runningSinceMs": 1,
            "offsets": offsets.encode(table, log.now_ms),
            "queues": queues,
        },
        **fields,
    }


Run = Callable[[str], tuple[int, dict[str, Any]]]


def run(text: str, *code: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, *(code or ("-m", "popmq_pipelines.export.export_process"))]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=110)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The same in this process, which keeps its priority."""
    monkeypatch.setattr(os, "nice", lambda _: None)

    def run_here(text: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        code = export_process.main()
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run_here


def test_it_writes_what_is_asked_for(log: LogWriter, tmp_path: Path) -> None:
    asked = order(log, tmp_path / "out")
    log.send("behind the watermark")
    code, told = run(json.dumps(asked))
    assert code == 0
    assert (told["whole"], told["why"], told["problems"]) == (True, "it is the first", [])
    assert told["logEnd"] == asked["watermarks"]["logEnd"]
    chain = follow(Path(told["place"]))
    assert chain.problems == []
    assert chain.manifest.files["commitlog_index"]["rows"] == 3
    assert chain.manifest.running_since_ms == 1


def test_a_broker_that_says_something_else_than_its_log_is_told(
    log: LogWriter, tmp_path: Path, here: Run
) -> None:
    asked = order(log, tmp_path / "out")
    asked["watermarks"]["queues"]["orders"]["0"] = (0, 9)
    _, told = here(json.dumps(asked))
    assert told["problems"] == ["orders queue 0: the broker says it ends at 9, the log at 1"]


def test_a_log_that_ends_before_the_watermark_is_told(
    log: LogWriter, tmp_path: Path, here: Run
) -> None:
    asked = order(log, tmp_path / "out")
    asked["watermarks"]["logEnd"] = log.end + 100
    _, told = here(json.dumps(asked))
    (problem,) = told["problems"]
    assert f"on disk up to {log.end + 100}" in problem


def test_what_cannot_be_done_is_one_line(log: LogWriter, tmp_path: Path, here: Run) -> None:
    inside = json.dumps(order(log, log.data_dir / "out"))
    code, told = here(inside)
    assert code == 2
    assert "inside the data directory" in told["failed"]
    (tmp_path / "file").write_text("")
    code, told = here(json.dumps(order(log, tmp_path / "file")))
    assert code == 2
    assert str(tmp_path / "file") in told["failed"]


def test_a_missing_package_is_told_with_the_command_that_mends_it() -> None:
    code = "import sys; sys.modules['pyarrow'] = None\n"
    code += "from popmq_pipelines.export.export_process import main\n"
    found = run("", "-c", f"{code}sys.exit(main())")
    assert found == (2, {"failed": "pyarrow is not installed: pip install 'popmq[export]'"})


def test_it_ends_when_its_broker_has_died(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody keeps the log's files for it any more."""
    for i in range(RECORDS_PER_SLICE + 1):
        log.send(f"m{i}")
    parents = iter([7, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    monkeypatch.setattr(os, "nice", lambda _: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(order(log, tmp_path / "out"))))
    with pytest.raises(SystemExit) as ended:
        export_process.main()
    assert ended.value.code == export_process.FAILED
    assert not list((tmp_path / "out").glob(f"*/{MANIFEST}"))
