"""Faults are done to a cluster: a thread for each lane, which waits until each fault is over."""

import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from torture.cluster import Cluster, Cut
from torture.faults import BACKUP, PRIMARY, Lane, Planned, plan
from torture.history import Fault, Trouble

PRIMARY_S = 20.0
"""So long a group may have no primary before the next fault."""
IN_SYNC_S = 60.0
LOOK_S = 0.5

Note = Callable[[Fault | Trouble], None]


@dataclass
class Striking:
    cluster: Cluster
    seed: int
    note: Note
    """Called from any thread."""
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, lanes: list[Lane]) -> None:
        for lane in lanes:
            self._threads.append(threading.Thread(target=self._lane, args=(lane,), daemon=True))
        self._threads.append(threading.Thread(target=self._watch, daemon=True))
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Faults that are under way are healed."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def trouble(self, text: str) -> None:
        self.note(Trouble(at_s=time.time(), text=text))

    def _watch(self) -> None:
        """Servers that end by themselves; each is started again."""
        while not self._ending.wait(LOOK_S):
            for name in self.cluster.dead():
                process = self.cluster.process(name)
                code = process.running.returncode if process.running else None
                said = process.log.read_text(errors="replace").splitlines()[-3:]
                self.trouble(f"{name} ended by itself with {code}: {said}")
                with suppress(AssertionError):
                    self.cluster.start(name)

    def _lane(self, lane: Lane) -> None:
        for planned in plan(self.seed, lane):
            if self._ending.wait(planned.gap_s):
                return
            target, role = self._target(lane, planned)
            if not target:
                continue
            began_s = time.time()
            try:
                self._strike(planned, target, lane.broker)
            except AssertionError as failed:
                self.trouble(f"{planned.kind.name} of {target}: {str(failed)[-600:]}")
                continue
            fault = Fault(
                name=planned.kind.name,
                target=target,
                role=role,
                broker=lane.broker,
                began_s=began_s,
                healed_s=time.time(),
            )
            self.note(fault)
            if planned.kind.name == "wipe" and not self.cluster.until_in_sync(
                lane.broker, IN_SYNC_S
            ):
                self.trouble(f"{target} was wiped, and is not in sync {IN_SYNC_S:.0f} s later")

    def _target(self, lane: Lane, planned: Planned) -> tuple[str, str]:
        """Who, and its role. Nobody: it may not be done now."""
        if not lane.broker:
            return planned.one_of(lane.targets), ""
        if planned.kind.name == "wipe" and not self.cluster.all_in_sync(lane.broker):
            return "", ""
        primary = self.cluster.primary(lane.broker)
        if primary is None:
            return "", ""
        backups = [one for one in self.cluster.brokers[lane.broker] if one != primary]
        if planned.kind.role == PRIMARY:
            return primary, PRIMARY
        return planned.one_of(backups), BACKUP

    def _strike(self, planned: Planned, target: str, broker: str) -> None:
        name, cluster = planned.kind.name, self.cluster
        if name in ("kill", "stop", "wipe"):
            (cluster.stop if name == "stop" else cluster.kill)(target)
            if name == "wipe":
                shutil.rmtree(cluster.data_dir(target))
            self._ending.wait(planned.hold_s)
            cluster.start(target)
        elif name.endswith("pause"):
            cluster.signal(target, signal.SIGSTOP)
            self._ending.wait(planned.hold_s)
            cluster.signal(target, signal.SIGCONT)
        elif name == "hand-over":
            cluster.hand_over(broker)
        else:
            cuts = cuts_of(cluster, name, target, broker)
            cluster.cut(cuts)
            self._ending.wait(planned.hold_s)
            cluster.mend(cuts)


def cuts_of(cluster: Cluster, name: str, target: str, broker: str) -> set[Cut]:
    if name == "cut from the proxies":
        others = [one for one in cluster.processes if one.startswith("proxy")]
    elif name == "cut from the register":
        others = list(cluster.register.members)
    else:
        others = [one for one in cluster.brokers[broker] if one != target]
    there = {Cut(target, other) for other in others}
    back = {Cut(other, target) for other in others}
    if name == "not heard by the others":
        return there
    if name == "deaf to the others":
        return back
    return there | back
