"""One row of one system: the load, and the judge's verdict on its messages."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from peers.judge import judge, percentile
from peers.results import Turn
from peers.servers import PeerServer, machine_cpu_s
from peers.systems import LOADS, Load
from peers.workers import Worker, all_do

WARM_S: Final = 1.0
FILL: Final = LOADS["send"]
"""How the backlog of the row `receive` is sent, with every system."""
LATE_S: Final = 300.0
"""A client process that answers nothing for so long fails its row."""
NEVER_S: Final = 120.0


@dataclass(frozen=True)
class Length:
    seconds: float
    messages_max: int
    """A load of sends ends after so many, too; the backlog of `receive` has so many."""


class Ask:
    """The client processes of a turn; keeps what they confirmed and received."""

    def __init__(self, everyone: Sequence[Worker], length: Length) -> None:
        self._everyone, self._length = everyone, length
        self.results: list[dict[str, Any]] = []

    def _do(self, call: str, **arguments: object) -> list[dict[str, Any]]:
        found = all_do(self._everyone, LATE_S, call, **arguments)
        self.results += found
        return found

    def send(self, load: Load, seconds: float) -> list[dict[str, Any]]:
        count = len(self._everyone)
        return self._do(
            "send",
            seconds=seconds,
            in_flight=max(1, load.in_flight // count),
            batch=load.batch,
            count_max=self._length.messages_max // count,
        )

    def receive(self) -> list[dict[str, Any]]:
        return self._do("receive")

    def both(self, load: Load, seconds: float) -> list[dict[str, Any]]:
        return self._do("both", seconds=seconds, rate_per_s=load.rate_per_s / len(self._everyone))


def run(
    row: str, number: int, server: PeerServer, everyone: Sequence[Worker], length: Length
) -> Turn:
    """`number`: of the round. Every message of the turn is received in the end, and judged."""
    load, place = LOADS[row], f"{row}-{len(everyone)}"
    everyone[0].ask("create", place=place)
    everyone[0].answer(LATE_S)
    all_do(everyone, LATE_S, "open", place=place)
    ask = Ask(everyone, length)
    if row == "receive":
        ask.send(FILL, NEVER_S)
    elif not load.rate_per_s:
        ask.send(load, WARM_S)
    began_s, machine_s, cpu_s = time.monotonic(), machine_cpu_s(), server.cpu_s()
    if row == "receive":
        measured = ask.receive()
    elif load.rate_per_s:
        measured = ask.both(load, length.seconds)
    else:
        measured = ask.send(load, length.seconds)
    cpu_s = server.cpu_s() - cpu_s
    machine_s, window_s = machine_cpu_s() - machine_s, time.monotonic() - began_s
    if not load.rate_per_s and row != "receive":
        ask.receive()
    turn = turn_of(server.name, row, number, cpu_s, measured, ask.results)
    clients_s = sum(one["cpu_s"] for one in measured)
    other_s = max(0.0, machine_s - cpu_s - clients_s)
    return replace(turn, other_percent=100 * other_s / window_s)


def turn_of(
    system: str,
    row: str,
    number: int,
    server_cpu_s: float,
    measured: Sequence[dict[str, Any]],
    everything: Sequence[dict[str, Any]],
) -> Turn:
    """`measured`: what the client processes did in the window; `everything`: in the turn."""
    verdict = judge(_runs(everything, "confirmed"), _runs(everything, "received"))
    what = "confirmed" if row.startswith("send") else "received"
    messages = sum(last - first + 1 for _, first, last in _runs(measured, what))
    span_ns = max(one["last_ns"] for one in measured) - min(one["began_ns"] for one in measured)
    latencies_us = [value for one in measured for value in one["latencies_us"]]
    errors = sum((Counter[str](one["errors"]) for one in everything), Counter[str]())
    p50_us, p99_us = (percentile(latencies_us, share) for share in (0.5, 0.99))
    each = 1e6 / max(messages, 1)
    return Turn(
        system=system,
        processes=len(measured),
        row=row,
        round=number,
        messages=messages,
        seconds=span_ns / 1e9,
        server_cpu_us=server_cpu_s * each,
        client_cpu_us=sum(one["cpu_s"] for one in measured) * each,
        p50_ms=None if p50_us is None else p50_us / 1000,
        p99_ms=None if p99_us is None else p99_us / 1000,
        confirmed=verdict.confirmed,
        missing=verdict.missing,
        duplicates=verdict.duplicates,
        unconfirmed=verdict.unconfirmed,
        errors=dict(errors),
    )


def _runs(answers: Iterable[dict[str, Any]], what: str) -> list[tuple[int, int, int]]:
    return [(run[0], run[1], run[2]) for one in answers for run in one[what]]
