"""How long a broker served nobody, for each kind of fault: from probes that were answered OK, and
from messages that were received.

A fault's time ends when the next one at the same broker begins, a while after it was healed, and
with the last probe or message.
The outage is the longest time without an answer in between; before the fault nothing counts.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from torture.history import Call, Fault, History, letter

AFTER_S: Final = 15.0
"""A disturbance so long after a fault was healed still is the fault's."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Of one kind of fault, in seconds, growing."""

    fault: str
    alone: bool
    """No other fault was there at that time."""
    times_s: tuple[float, ...]

    def quantile(self, share: float) -> float:
        return self.times_s[min(len(self.times_s) - 1, int(share * len(self.times_s)))]


def outages(history: History) -> list[Outages]:
    probes_s = [call.began_s for call in history.calls if _is_probe(call)]
    last_probe_s, received_s = max(probes_s, default=0.0), _receives_s(history)
    last_s = max((times_s[-1] for times_s in received_s.values()), default=0.0)
    looks = (
        ("", _probes_s(history), last_probe_s),
        (", receives", received_s, min(last_s, last_probe_s)),  # then nothing is sent any more
    )
    found: dict[tuple[str, bool], list[float]] = defaultdict(list)
    faults = sorted(history.faults, key=lambda fault: fault.began_s)
    for fault in faults:
        others = [one for one in faults if one is not fault and _concerns(one, fault.broker)]
        ends = [one.began_s for one in others if one.began_s > fault.began_s]
        for what, by_broker, last_s in looks:
            until_s = min([*ends, fault.healed_s + AFTER_S, max(last_s, fault.began_s)])
            name = f"{fault.name} of {fault.role or kind(fault)}{what}"
            for broker, answers_s in by_broker.items():
                if not _concerns(fault, broker):
                    continue
                began_s, ended_s = longest(answers_s, fault.began_s, until_s)
                alone = not any(
                    one.began_s < ended_s and one.healed_s > fault.began_s for one in others
                )
                found[name, alone].append(ended_s - began_s)
    return [
        Outages(name, alone, tuple(sorted(found[name, alone]))) for name, alone in sorted(found)
    ]


def _concerns(fault: Fault, broker: str) -> bool:
    return not fault.broker or not broker or fault.broker == broker


def kind(fault: Fault) -> str:
    """Of the process: proxy, nameserver, etcd."""
    return fault.target.rpartition("-")[0] or fault.target


def _probes_s(history: History) -> dict[str, list[float]]:
    """Broker → when probes were answered. A probe's line is at one broker, which its stored
    messages tell; where they are not known, all count as of one."""
    broker_of = {
        one.body.rpartition("/")[0]: one.broker for one in history.stored if letter(one.body) == "p"
    }
    return _by_broker(
        (broker_of.get(call.line, ""), call.ended_s)
        for call in history.calls
        if _is_probe(call) and not call.error
    )


def _is_probe(call: Call) -> bool:
    return call.name == "send" and letter(call.body) == "p"


def _receives_s(history: History) -> dict[str, list[float]]:
    """Broker → when messages of it came."""
    return _by_broker(
        (call.place.rpartition("/")[0], call.ended_s)
        for call in history.calls
        if call.name == "receive" and call.place
    )


def _by_broker(times: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for broker, at_s in times:
        found[broker].append(at_s)
    return {broker: sorted(times_s) for broker, times_s in found.items()}


def longest(answers_s: Sequence[float], began_s: float, until_s: float) -> tuple[float, float]:
    """The longest time without an answer that begins in between. It ends with the next answer,
    wherever that is."""
    first, last = bisect_left(answers_s, began_s), bisect_right(answers_s, until_s)
    times = [began_s, *answers_s[first : last + 1]]
    if last >= len(answers_s):  # no answer came any more
        times.append(max(until_s, times[-1]))
    return max(pairwise(times), key=lambda pair: pair[1] - pair[0])
