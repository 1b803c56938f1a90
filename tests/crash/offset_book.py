"""What may be committed, by what consumers were told and what lies in the queues.

    lowest     a commit, ack or look that was answered OK said so much: it never goes back
    highest    nobody has handled the message there: a group that went over it would lose it

A group that receives (not FIFO) passes over what it has handed out: leases and its retry topic
stand for what is not acked. Of it nothing but the end of the queue is the highest; that nothing was
passed over and lost is seen at the end, when every message of the queues was handled.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from crash.offset_consumers import FIFO, POP, PULL

GROUPS = (PULL, POP, FIFO)


class Tail:
    """The whole lines that have been added to a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with open(self._path, "rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")
        self._read += len(whole[0]) + len(whole[1])
        return whole[0].decode().splitlines()


@dataclass
class Book:
    placed: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The bodies of each queue, by offset."""
    lines: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _said: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    _committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    _seen: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))
    _passed: dict[tuple[str, str, int], int] = field(default_factory=lambda: defaultdict(int))

    def note(self, line: str) -> None:
        """A line of a consumer's record."""
        what, name, last = line.split(" ")
        self.lines[what] += 1
        if what == "committed":
            self._committed[int(name)] = max(self._committed[int(name)], int(last))
        else:
            self._said[what, name].add(last)

    def _prefix(self, what: str, group: str, queue_id: int) -> int:
        """The offset before which `what` was said of each message."""
        said, bodies = self._said[what, group], self.placed[queue_id]
        at = self._passed[what, group, queue_id]
        while at < len(bodies) and bodies[at] in said:
            at += 1
        self._passed[what, group, queue_id] = at
        return at

    def lowest(self, group: str, queue_id: int) -> int:
        if group == PULL:
            return self._committed[queue_id]
        return self._prefix("acked", group, queue_id)

    def highest(self, group: str, queue_id: int) -> int:
        if group == POP:
            return len(self.placed[queue_id])
        return self._prefix("handled", group, queue_id)

    def seen(self, where: str, group: str, queue_id: int, offset: int, lowest: int) -> list[str]:
        """`where` says that the group is at `offset`, and so it never goes back there; what is
        wrong about it."""
        highest = self.highest(group, queue_id)
        place = (where, group, queue_id)
        lowest, self._seen[place] = max(lowest, self._seen[place]), offset
        if lowest <= offset <= highest:
            return []
        return [f"{group}, queue {queue_id}: {where} says {offset}, not in {lowest} to {highest}"]

    def unhandled(self, group: str) -> set[str]:
        bodies = {body for queue in self.placed.values() for body in queue}
        return bodies - self._said["handled", group]
