"""Load and faults for some minutes; then all is healed, drained, killed, and read from disk."""

import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from chaos.cluster import Load
from soak.scrape import TIMEOUT_S

from torture import faults, history, load, replica_logs
from torture.cluster import Cluster, cluster
from torture.history import Call, Entry, Fault, Run, Trouble, calls_of, letter
from torture.registers import register_servers
from torture.striking import Striking

TOPICS = "torture"
WARM_S = 3.0
IN_SYNC_S = 60.0
STUCK_S = 120.0
"""So long nothing new came, and something is missing: it does not come."""
DRAIN_S_MAX = 3_600.0
QUIET_S = 5.0
"""Longer than a lease nothing may come when all has come: one that was not ended would be over."""
LOOK_S = 3.0
SHUT_S = 2.0
"""Between the last call and the kill: what is committed is known to all by then."""


class Recorder:
    """Writes the history; any thread may."""

    def __init__(self, out: TextIO, tell: Callable[[str], None]) -> None:
        self._out = out
        self._tell = tell
        self._writing = threading.Lock()

    def note_all(self, entries: Iterable[Entry]) -> None:
        with self._writing:
            history.write(self._out, entries)
            self._out.flush()

    def note(self, entry: Entry) -> None:
        self.note_all([entry])
        if isinstance(entry, Fault):
            lasted_s = entry.healed_s - entry.began_s
            self._tell(f"{entry.name} of {entry.target} {entry.role}, {lasted_s:.1f} s")
        elif isinstance(entry, Trouble):
            self._tell(f"TROUBLE {entry.text}")


def run(
    folder: Path,
    recorder: Recorder,
    *,
    seed: int,
    minutes: float,
    brokers: int,
    register: str,
    clients: Sequence[str],
    lanes: Sequence[str],
) -> None:
    """Everything is in the history when it returns."""
    settings = {
        "minutes": minutes,
        "brokers": brokers,
        "register": register,
        "clients": list(clients),
        "lanes": list(lanes),
    }
    recorder.note(Run(seed=seed, began_s=time.time(), settings=settings))
    with (
        register_servers(register, folder / "register") as servers,
        cluster(folder, servers, brokers) as made,
    ):
        load.create(made.ask, clients, TOPICS)
        with load.running(folder, clients, made.endpoints, TOPICS) as loads:
            time.sleep(WARM_S)
            striking = Striking(made, seed, recorder.note)
            names = [*made.processes, *servers.members]
            striking.begin(faults.lanes(list(made.brokers), names, lanes))
            let_go_on(loads, minutes * 60)
            striking.end()
            for broker in made.brokers:
                if not made.until_in_sync(broker, IN_SYNC_S):
                    text = f"{broker} is not in sync {IN_SYNC_S:.0f} s after the last fault"
                    striking.trouble(f"{text}: {made.record(broker)}")
            drain(loads)
        note_calls(loads, recorder)
        time.sleep(SHUT_S)
        _read_disks(made, recorder)


def note_calls(loads: dict[str, Load], recorder: Recorder) -> None:
    for kind, one in loads.items():
        recorder.note_all(calls_of(kind, one.events))


def let_go_on(loads: dict[str, Load], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))
        for one in loads.values():
            one.check()


def drain(loads: dict[str, Load]) -> None:
    """Nothing more is sent. Ends when everything has come, and nothing has come for long; or when
    nothing new comes any more, which the judge will see. An ack whose answer was lost may have been
    done: nobody waits for acks. A message group with a backlog takes its time: some are nacked."""
    for one in loads.values():
        one.drain()
    quiet_s = load.lease_s(loads) + QUIET_S
    deadline, missing, since_s = time.monotonic() + DRAIN_S_MAX, -1, time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(LOOK_S)
        calls = [call for kind, one in loads.items() for call in calls_of(kind, one.events)]
        came = [call for call in calls if call.name == "receive" and call.body]
        last_s = max((call.ended_s for call in came), default=0.0)
        left = len(owed(calls) - {call.body for call in came})
        if not left and time.time() - last_s > quiet_s:
            return
        if left != missing:
            missing, since_s = left, time.monotonic()
        elif left and time.monotonic() - since_s > STUCK_S:
            return


def owed(calls: Sequence[Call]) -> set[str]:
    """Messages that must come."""
    return {
        call.body
        for call in calls
        if not call.error
        and (call.name == "send" or (call.name == "half" and call.commit))
        and letter(call.body) != "p"
    }


def _read_disks(made: Cluster, recorder: Recorder) -> None:
    """All replicas are killed at once, and their files compared."""
    commit_points = {name: commit_point(port) for name, port in made.metrics_ports.items()}
    for names in made.brokers.values():
        for name in names:
            made.kill(name)
    for broker, names in made.brokers.items():
        folders = {name: made.data_dir(name) for name in names}
        points = {name: commit_points[name] for name in names}
        for name in names:
            if not points[name]:
                text = f"{name} did not tell its commit point"
                recorder.note(Trouble(at_s=time.time(), text=text))
        recorder.note_all(replica_logs.compared(broker, folders, points))
        model = max(points, key=lambda name: points[name])
        model_log = broker, folders[model], points[model], TOPICS
        recorder.note_all(replica_logs.stored(*model_log))


def commit_point(metrics_port: int) -> int:
    """0: the replica does not answer."""
    with (
        suppress(OSError),
        urllib.request.urlopen(
            f"http://127.0.0.1:{metrics_port}/metrics", timeout=TIMEOUT_S
        ) as page,
    ):
        return commit_point_on(page.read().decode())
    return 0


def commit_point_on(page: str) -> int:
    """Of a page of metrics. Raises `LookupError`."""
    found = re.search(r"^popmq_replica_commit_point(?:\{.*\})? (\S+)$", page, re.MULTILINE)
    if found is None:
        raise LookupError("the page of metrics has no popmq_replica_commit_point")
    return int(float(found[1]))
