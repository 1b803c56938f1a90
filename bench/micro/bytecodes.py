"""Executed bytecodes of Python instead of time: they are the same on every machine, and two runs
differ by less than 1 %. So a loss of speed in the code is found without a quiet machine and without
an earlier version beside this one. What C does for them is left out.

A case calls `mark` before and behind what it measures (instructions.py).
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

RECORD: Final = Path(__file__).with_name("bytecodes.json")
"""Version of Python → case → bytecodes per message."""
NAMED: Final = 1.05
"""A change by this factor is named."""
WORSE: Final = 1.25
"""By this one it is a failure."""
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"


class BytecodeCounter:
    def __init__(self) -> None:
        self._by_code: Counter[CodeType] = Counter()
        self._counts = False

    def at_mark(self) -> None:
        self._counts = not self._counts
        sys.settrace(self._enter if self._counts else None)

    def take(self) -> dict[str, int]:
        """File and function → how many since this was asked last, the most first."""
        found: Counter[str] = Counter()
        for code, count in self._by_code.items():
            found[_named(code)] += count
        self._by_code.clear()
        return dict(found.most_common())

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self._by_code[frame.f_code] += 1
        return self._step


def _named(code: CodeType) -> str:
    folder, _, name = code.co_filename.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}:{code.co_firstlineno} {code.co_qualname}"


def recorded() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def record(counted: Mapping[str, int]) -> None:
    """Of this version of Python."""
    known = {**recorded(), PYTHON: dict(counted)}
    RECORD.write_text(json.dumps(known, indent=2) + "\n")


def verdict(now: int, before: int | None) -> str:
    """What to say of a case."""
    if before is None:
        return f"FAILED: not recorded for Python {PYTHON}"
    if now > before * WORSE:
        return f"FAILED: above {WORSE:g} times"
    if now > before * NAMED:
        return "more"
    return "less: record it" if now * NAMED < before else ""
