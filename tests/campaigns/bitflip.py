"""Single bits of a stopped store are flipped; then everything is read.

    PYTHONPATH=tests python -m campaigns.bitflip [RUNS] [SEED]

Each flip ends in one of

    detected   refused, at the start or when it is read, with the file and the offset
    rebuilt    the log says that something was made again or cut off, and all answers are the same
    previous   the log says that the generation before was taken; answers may be those of then
    torn       the log says that it was cut at or behind the mark, as after a crash
    harmless   all answers are the same: the byte is never read, or says nothing
    SILENT     an answer is another one and nothing was said, or an error says nothing of the file.
               There must be none
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import structlog
from campaigns.stopped_store import Reopened, make
from harness.broker import QUICK_DISK

from popmq_broker.store.files import checkpoint_file
from popmq_broker.store.files.files import OsFiles
from popmq_common.errors import Corrupt, PopMQError

SILENT = "SILENT"
OFTEN = ["commitlog"] * 10 + ["consumequeue"] * 8
"""Beside once each kind of file."""
_MADE_AGAIN = {"queues.rebuilt", "queues.ends_lost", "log.truncated", "checkpoint.passed_over"}


class DiskGaveUp(BaseException):
    """What ends the process, here."""


class Campaign:
    def __init__(self, folder: Path, seed: int, *, clean: bool) -> None:
        self.random = random.Random(seed)
        self.source, self._driver = make(folder / "made", clean=clean)
        marks = checkpoint_file.load(OsFiles(), self.source / "checkpoint")
        assert marks is not None
        self.mark = marks.log_end
        self.copy = Reopened(self.source, folder / "copy", self._driver)
        self.kinds: dict[str, list[Path]] = {}
        for path in sorted(self.source.rglob("*")):
            if path.is_file() and path.stat().st_size:
                self.kinds.setdefault(_kind(path.relative_to(self.source)), []).append(path)
        self.copy.fresh()
        self.expected = self.copy.answers()
        self.copy.fresh()
        assert self.copy.answers() == self.expected, "the answers themselves change"

    def flip(self) -> tuple[str, str, str]:
        """(kind of file, verdict, what exactly)."""
        kind = self.random.choice([*sorted(self.kinds), *OFTEN])
        path = self.random.choice(self.kinds[kind])
        data = path.read_bytes()
        used = len(data.rstrip(b"\0")) or len(data)
        bit = self.random.randrange(8 * (used if self.random.random() < 0.9 else len(data)))
        self.copy.fresh()
        damaged = self.copy.data_dir / path.relative_to(self.source)
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(changed)
        verdict, why = self.judge()
        return (
            kind,
            verdict,
            f"{path.relative_to(self.source)} byte {bit // 8} bit {bit % 8}: {why}",
        )

    def judge(self) -> tuple[str, str]:
        with structlog.testing.capture_logs() as lines:
            try:
                found = self.copy.answers()
            except Corrupt as told:
                named = told.fields.get("path") and told.fields.get("offset") is not None
                return ("detected" if named else SILENT), str(told)
            except (DiskGaveUp, PopMQError) as told:
                return "detected", repr(told)
            except Exception as told:
                return SILENT, f"not a typed error: {told!r}"
        events = {line["event"] for line in lines}
        if "config.restored" in events:
            return "previous", str([line for line in lines if line["event"] == "config.restored"])
        if found != self.expected:
            cuts = [line["offset"] for line in lines if line["event"] == "log.truncated"]
            if cuts and min(cuts) >= self.mark:
                return "torn", f"cut at {min(cuts)}, the mark is {self.mark}"
            return SILENT, _first_difference(self.expected, found)
        if events & _MADE_AGAIN:
            return "rebuilt", str(sorted(events & _MADE_AGAIN))
        return "harmless", ""

    def close(self) -> None:
        self._driver.loop.close()


def _kind(path: Path) -> str:
    if path.parts[0] in ("commitlog", "consumequeue"):
        return path.parts[0]
    return str(path)


def _first_difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            return f"{name}: {expected.get(name)!r:.300} became {found.get(name)!r:.300}"
    return "?"


def _gave_up(code: int) -> None:
    raise DiskGaveUp(code)


def run(runs: int, seed: int, *, clean: bool) -> Counter[tuple[str, str]]:
    """Verdicts by kind of file; prints what was silent."""
    verdicts: Counter[tuple[str, str]] = Counter()
    os._exit = _gave_up  # type: ignore[assignment]
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        campaign = Campaign(Path(folder), seed, clean=clean)
        for _ in range(runs):
            kind, verdict, what = campaign.flip()
            verdicts[kind, verdict] += 1
            if verdict == SILENT:
                print(f"SILENT: {what}", flush=True)
        campaign.close()
    return verdicts


def main(arguments: list[str]) -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    runs = int(arguments[0]) if arguments else 2_000
    seed = int(arguments[1]) if len(arguments) > 1 else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    verdicts = run(runs // 2, seed, clean=True) + run(runs - runs // 2, seed, clean=False)
    columns = ("detected", "rebuilt", "previous", "torn", "harmless", SILENT)
    print(f"{'':40}" + "".join(f"{column:>10}" for column in columns))
    for kind in sorted({kind for kind, _ in verdicts}):
        print(f"{kind:40}" + "".join(f"{verdicts[kind, column]:>10}" for column in columns))
    silent = sum(count for (_, verdict), count in verdicts.items() if verdict == SILENT)
    print(f"{runs} flips in {time.monotonic() - began:.0f} s, {silent} silent")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
