"""Files that change are taken, seldom looked at; broken ones change nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_common.tls.followed import LOOK_S, FollowedFiles


class Seen:
    """A file that is followed, on a clock moved by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_s = 0.0
        self.reads = 0
        path.write_text("first")
        self.followed = FollowedFiles([path], self._read, logs.get("t"), now_s=lambda: self.now_s)

    def _read(self) -> str:
        self.reads += 1
        text = self.path.read_text()
        if text == "broken":
            raise ConfigError("it is broken")
        return text

    def later(self, seconds: float = LOOK_S) -> str:
        self.now_s += seconds
        return self.followed.current()


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path / "file")


def replaced(path: Path) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text("other")  # as long as before
    found = path.stat()
    os.utime(fresh, ns=(found.st_atime_ns, found.st_mtime_ns))
    fresh.replace(path)


def written(path: Path) -> None:
    path.write_text("other")


def linked(path: Path) -> None:
    """As Kubernetes does it."""
    there = path.with_name("there")
    there.write_text("other")
    path.unlink()
    path.symlink_to(there)


@pytest.mark.parametrize("change", [replaced, written, linked])
def test_a_change_is_taken_at_the_next_look(seen: Seen, change: Callable[[Path], None]) -> None:
    change(seen.path)
    assert seen.later(LOOK_S - 0.1) == "first"
    assert seen.later(0.1) == "other"


def test_what_did_not_change_is_read_once(seen: Seen) -> None:
    for _ in range(100):
        assert seen.later() == "first"
    assert seen.reads == 1


def test_a_broken_file_keeps_the_one_before_and_is_told(seen: Seen) -> None:
    seen.path.write_text("broken")
    with capture_logs() as lines:
        assert seen.later() == "first"
        assert [seen.followed.current() for _ in range(50)] == ["first"] * 50
    assert [(line["event"], line["log_level"], line["reason"]) for line in lines] == [
        ("certificate.refused", "error", "it is broken")
    ]
    seen.path.write_text("mended")
    assert seen.later() == "mended"


def test_one_that_was_broken_by_a_file_elsewhere_is_tried_again(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file itself changes no more: it may have been half of a pair."""
    seen.path.write_text("second")
    read = seen.followed._make
    monkeypatch.setattr(seen.followed, "_make", _broken)
    assert seen.later() == "first"
    monkeypatch.setattr(seen.followed, "_make", read)
    assert seen.later() == "second"


def _broken() -> str:
    raise ConfigError("not now")


def test_a_file_that_is_gone_keeps_the_one_before(seen: Seen) -> None:
    seen.path.unlink()
    seen.followed._make = _broken
    with capture_logs() as lines:
        assert seen.later() == "first"
    assert [line["event"] for line in lines] == ["certificate.refused"]
