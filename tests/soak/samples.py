"""Memory and descriptors of the processes over a soak."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.processes import Process


class Sample(NamedTuple):
    at_s: float
    memory_mib: float
    descriptors: int


class Samples:
    def __init__(self) -> None:
        self._found: dict[str, list[Sample]] = defaultdict(list)

    def take(self, name: str, process: Process, at_s: float) -> None:
        """A process with all its children; nothing of one that is going away."""
        try:
            pids = process.tree()
            memory_kib = sum(map(_anonymous_kib, pids))
            descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
        except OSError:
            return
        self._found[name].append(Sample(at_s, memory_kib / 1024, descriptors))

    def growth(self, name: str) -> float:
        """Peak memory of the last third over that of the middle one."""
        found = self._found[name]
        third = len(found) // 3
        if not third:
            return 1.0
        return _peak(found[-third:]) / _peak(found[third : 2 * third])

    def descriptor_growth(self, name: str) -> int:
        found = self._found[name]
        third = len(found) // 3
        if not third:
            return 0
        last = max(one.descriptors for one in found[-third:])
        return last - max(one.descriptors for one in found[third : 2 * third])

    @property
    def names(self) -> list[str]:
        return list(self._found)

    def table(self) -> str:
        lines = [f"{'process':<12}{'minute':>8}{'peak MiB':>10}{'descriptors':>13}"]
        for name, found in self._found.items():
            for minute in range(int(found[-1].at_s // 60) + 1):
                within = [one for one in found if one.at_s // 60 == minute]
                if within:
                    most = max(one.descriptors for one in within)
                    lines.append(f"{name:<12}{minute:>8}{_peak(within):>10.0f}{most:>13}")
        return "\n".join(lines)


def _peak(found: Sequence[Sample]) -> float:
    return max(one.memory_mib for one in found)


def _anonymous_kib(pid: int) -> int:
    """Without mapped files: the log is read through the page cache."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])
