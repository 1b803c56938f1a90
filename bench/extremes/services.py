"""PopMQ in separate processes on free ports, with a fresh folder that is gone afterwards."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from compare import load
from compare.failure import BenchFailure
from compare.progress import uninterrupted
from compare.servers import Popmq, Ports, Tools, free_ports, patiently

CONFIRM_TIMEOUT_S = 60.0
CONFIRM_PAUSE_S = 0.05
LOADGEN_SLACK_S = 300.0
"""What loadgen may take beyond the time it was asked for: connecting, draining."""


class Services(Popmq):
    """Nameserver, brokers and proxy; `variables` win over the benchmark's own."""

    def __init__(
        self,
        tools: Tools,
        folder: Path,
        front: str,
        variables: Mapping[str, str],
        brokers: int = 1,
        ports: Ports | None = None,
    ) -> None:
        super().__init__(tools, "sync", folder, ports or free_ports(), front, alone=False)
        self._variables = dict(variables)
        self._more = {f"broker-{i}": free_ports().broker for i in range(2, brokers + 1)}
        """Brokers beside the first one, and their ports."""

    def commands(self) -> list[tuple[str, int, list[str]]]:
        more = [(name, port, ["broker"]) for name, port in self._more.items()]
        nameserver, broker, proxy = super().commands()
        return [nameserver, broker, *more, proxy]

    def own(self, name: str) -> Mapping[str, str]:
        if name not in self._more:
            return {}
        place = {"NAME": name, "PORT": str(self._more[name]), "DATA_DIR": str(self.folder / name)}
        return {f"POPMQ_BROKER_{key}": value for key, value in place.items()}

    def environment(self) -> dict[str, str]:
        place = {"POPMQ_BROKER_EXPORT_DIR": str(self.folder / "snapshots")}
        return {**super().environment(), **place, **self._variables}

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """More of them, before the start: such as need the folder's name."""
        self._variables |= variables

    def make_topic(self, name: str, queues: int = 8) -> None:
        """A NORMAL topic at every broker; waits for them to register."""
        words = ["topic", "create", name, "--type", "normal", "--queues", str(queues)]
        patiently(lambda: self._cli(*words))
        patiently(lambda: self._spread(name))

    def brokers_count(self) -> int:
        return 1 + len(self._more)

    def _spread(self, topic: str) -> None:
        if self.brokers_count() > 1:
            self._cli("topic", "spread", topic)
            command = [str(self.tools.popmq), "topic", "show", topic]
            command += ["--endpoint", self.endpoint, "--json"]
            shown = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            brokers = {queue["broker"] for queue in shown["queues"]}
            if len(brokers) < self.brokers_count():
                raise BenchFailure(f"{topic} is on {', '.join(sorted(brokers))} alone")

    def make_group(self, name: str, consume_from: str) -> None:
        """`consume_from` is first or last."""
        self._cli("group", "create", name, "--from", consume_from)

    def load(self, flags: Sequence[str], seconds: float) -> load.Report:
        """A run of loadgen that should take so long; errors that it saw are a failure."""
        report = load.run(self, flags, seconds + LOADGEN_SLACK_S)
        if report["errors"]:
            code, kind = next(iter(report["errors"].items()))
            raise BenchFailure(
                f"loadgen saw {code} {kind['count']} times, such as: {kind['example']}"
            )
        return report

    def start_timed(self, topic: str) -> float:
        """Seconds from the launch of the first process until a send to the topic is confirmed."""
        flags = ["-mode", "send", "-topic", topic, "-messages", "1"]
        flags += ["-inflight", "1", "-warmup", "0s", "-duration", "5s", "-rpc-timeout", "5s"]
        began = time.monotonic()
        self.start()
        while not load.confirms(self, flags, timeout_s=5.0):
            if time.monotonic() - began > CONFIRM_TIMEOUT_S:
                raise BenchFailure(f"no send was confirmed {CONFIRM_TIMEOUT_S:.0f} s after start")
            time.sleep(CONFIRM_PAUSE_S)
        return time.monotonic() - began


def services(
    tools: Tools, work: Path, front: str, variables: Mapping[str, str], brokers: int = 1
) -> AbstractContextManager[Services]:
    """As `in_folder`."""
    return in_folder(work, lambda folder: Services(tools, folder, front, variables, brokers))


@contextmanager
def in_folder(work: Path, make: Callable[[Path], Services]) -> Iterator[Services]:
    """Not started; whatever happens they are stopped and their folder is removed."""
    work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="extremes-", dir=work))
    made = make(folder)
    try:
        yield made
    finally:
        with uninterrupted():
            try:
                made.stop()
            finally:
                shutil.rmtree(folder, ignore_errors=True)
