"""deploy/audit.sh: every broker is audited, the worst verdict is told, what is not needed goes."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy/audit.sh"
STUB = """#!/bin/sh
echo "$@" >> "$CALLS"
case $1 in
export) mkdir -p "$5" && echo '{}' > "$5/manifest.json" ;;
backfill) exit "$(cat "$CODES/$(dirname "$3")")" ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "popmq-pipelines"
    stub.write_text(STUB)
    stub.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "codes").mkdir()
    return {
        "PATH": f"{stub.parent}:{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "CODES": str(tmp_path / "codes"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "spark"),
    }


def audit(tmp_path: Path, environment: dict[str, str], **codes: int) -> int:
    for broker, code in codes.items():
        (tmp_path / "codes" / broker).write_text(str(code))
    done = subprocess.run(
        ["sh", str(SCRIPT), *(f"/brokers/{broker}" for broker in codes)],
        cwd=tmp_path / "work",
        env=environment,
        timeout=60,
    )
    return done.returncode


@pytest.mark.parametrize(
    ("codes", "expected"),
    [({"a": 0, "b": 0}, 0), ({"a": 1, "b": 4}, 1), ({"a": 4, "b": 0}, 4), ({"a": 4, "b": 1}, 1)],
)
def test_the_exit_code(
    tmp_path: Path, environment: dict[str, str], codes: dict[str, int], expected: int
) -> None:
    assert audit(tmp_path, environment, **codes) == expected
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["export", "backfill", "compact"] * 2


def test_only_the_newest_snapshot_stays(tmp_path: Path, environment: dict[str, str]) -> None:
    old = tmp_path / "work" / "a" / "snapshots" / "a-20200101T000000Z"
    old.mkdir(parents=True)
    assert audit(tmp_path, environment, a=0) == 0
    (left,) = old.parent.iterdir()
    assert left != old
    assert (left / "manifest.json").exists()


def test_never_two_at_once(tmp_path: Path, environment: dict[str, str]) -> None:
    with open(tmp_path / "work" / "audit.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert audit(tmp_path, environment, a=0) == 75
    assert not (tmp_path / "calls").exists()
