"""docs/performance/peers.md: settings, a table for each row, memory and starts, weaknesses."""

from collections.abc import Mapping, Sequence
from typing import Final

from compare.report import NONE, number, table, times
from compare.results import OTHER_PERCENT_MAX
from peers.results import Key, Median, PeersRecord, medians, rate_ratio, start_medians
from peers.systems import LOADS, SYSTEMS
from peers.weaknesses import weaknesses

OURS: Final = "popmq"
"""What the ratios are of."""
ROUNDS_MIN, SECONDS_MIN = 3, 5.0
"""With less a run is a smoke test."""


def document(record: PeersRecord, picture: str | None) -> str:
    """The whole page; `picture`: the file's name beside it."""
    found, systems = medians(record.turns), record.settings["systems"]
    parts = [_head(record)]
    if picture:
        parts.append(f"![throughput and CPU per message of each system]({picture})")
    parts += ["## Settings", _settings(systems)]
    for count in record.settings["processes"]:
        parts.append(f"## {clients(count)[:1].upper()}{clients(count)[1:]}")
        for row in record.settings["rows"]:
            if lines := _row(row, count, systems, found):
                parts += [f"**{LOADS[row].title}**", lines]
    parts += ["## Memory and start", _starts(record), MEMORY]
    parts += ["## Where PopMQ is behind", _behind(record, found)]
    parts += ["## Was anything lost", _judged(record), _noisy(record)]
    parts += ["## How to read it", READING]
    return "\n\n".join(part for part in parts if part) + "\n"


def clients(count: int) -> str:
    return "one client process" if count == 1 else f"{count} client processes"


def _head(record: PeersRecord) -> str:
    machine, settings = record.machine, record.settings
    length = settings["length"]
    lines = [
        "# PopMQ beside Redis Streams, NATS JetStream and RabbitMQ",
        "",
        f"`make bench-peers` wrote this page. Measured {record.started[:10]} on"
        f" {machine['cores']} cores ({machine['processor']}), {machine['memory_gib']} GiB; servers"
        f" and clients share them. Bodies of 1 KiB. Medians of {settings['rounds']} round(s); the"
        f" systems take turns at each row, {length['seconds']:g} s or {length['messages_max']:,}"
        " messages long. Only ratios carry over to another machine.",
    ]
    if settings["rounds"] < ROUNDS_MIN or length["seconds"] < SECONDS_MIN:
        lines += ["", "**This was a smoke test, too short to compare systems by its figures.**"]
    versions = [f"{name} {_version(text)}" for name, text in record.versions.items()]
    return "\n".join([*lines, "", f"Versions: {'; '.join(versions)}."])


def _version(text: str) -> str:
    """The first word that begins like a number."""
    words = (word.removeprefix("v=").removeprefix("v") for word in text.split())
    return next((word for word in words if word[:1].isdigit()), NONE)


def _settings(systems: Sequence[str]) -> str:
    rows = [
        [one.title, one.settings, one.batch or "none", one.ack]
        for one in (SYSTEMS[name] for name in systems)
    ]
    return table(["system", "durability", "several messages a call", "ack"], rows).replace(
        "---:", "---"
    )


def _row(row: str, count: int, systems: Sequence[str], found: Mapping[Key, Median]) -> str:
    """At a fixed rate no throughput is compared."""
    load, ours = LOADS[row], found.get((OURS, count, row))
    rows = []
    for name in systems:
        if one := found.get((name, count, row)):
            cells = [SYSTEMS[name].title, number(one.messages_per_s)]
            if not load.rate_per_s:
                cells += [f"{one.spread:.0%}", times(rate_ratio(ours, one))]
            cells += [number(one.server_cpu_us), number(one.client_cpu_us)]
            if load.has_latency:
                cells += [number(one.p50_ms), number(one.p99_ms)]
            rows.append(cells)
    heads = ["system", "msg/s", *([] if load.rate_per_s else ["spread", "PopMQ ÷ it"])]
    heads += ["server CPU µs/msg", "client CPU µs/msg"]
    heads += ["p50 ms", "p99 ms"] if load.has_latency else []
    return table(heads, rows) if rows else ""


def _starts(record: PeersRecord) -> str:
    rows = [
        [
            SYSTEMS[name].title,
            number(one.startup_s),
            number(one.idle_mib),
            number(one.loaded_mib),
        ]
        for name, one in start_medians(record.starts).items()
    ]
    return table(["system", "start, s", "memory after it, MiB", "after all rows, MiB"], rows)


def _behind(record: PeersRecord, found: Mapping[Key, Median]) -> str:
    lines = [f"- {text}" for text in weaknesses(found, start_medians(record.starts))]
    return "\n".join(lines) if lines else "Nowhere in this run, by more than 5 %."


def _judged(record: PeersRecord) -> str:
    rows = []
    for name in record.settings["systems"]:
        turns = [turn for turn in record.turns if turn.system == name]
        errors = sum(sum(turn.errors.values()) for turn in turns)
        counts = (
            sum(turn.confirmed for turn in turns),
            sum(turn.missing for turn in turns),
            sum(turn.duplicates for turn in turns),
            sum(turn.unconfirmed for turn in turns),
            errors,
        )
        rows.append([SYSTEMS[name].title, *(f"{count:,}" for count in counts)])
    heads = ["system", "confirmed", "missing", "received twice", "received unconfirmed", "errors"]
    lines = [table(heads, rows)]
    if record.failures:
        lines += ["", *(f"- Failed: {' '.join(text.split())[:300]}" for text in record.failures)]
    return "\n".join(lines)


def _noisy(record: PeersRecord) -> str:
    """How many turns other processes disturbed."""
    noisy = [turn for turn in record.turns if turn.other_percent > OTHER_PERCENT_MAX]
    if not noisy:
        return ""
    worst = max(turn.other_percent for turn in noisy)
    return (
        f"In {len(noisy)} of {len(record.turns)} turns other processes of the machine used more"
        f" than {OTHER_PERCENT_MAX:.0f} % of a core, at most {worst:.0f} %."
    )


MEMORY: Final = (
    "Memory is the anonymous part of all server processes. Redis keeps a stream's entries in memory"
    " until it is trimmed, also acked ones; the benchmark trims nothing. The start is from the"
    " launch of the server until a client has a confirmed send; the client was loaded before."
)
READING: Final = "\n".join(
    (
        "- `spread` is the highest less the lowest round, as a share of the median. Differences"
        " below it mean nothing.",
        "- CPU is user and system time of all processes of a side, per message. Servers and clients"
        " share the cores, so a client that needs much CPU also slows its server.",
        "- p50 and p99 are of a call, from its begin to its confirmation; end to end, from send to"
        " receive.",
        '- "In flight" is of all client processes together. The SDK\'s `producer.send` puts sends'
        " that are under way together into one request. aio-pika and nats-py write theirs to one"
        " connection; redis-py takes a connection for each.",
        "- Receiving has a backlog that was sent before. A consumer holds or asks for up to 256"
        " messages: the handler's concurrency in the SDK, `COUNT` in Redis, the batch of a fetch in"
        " NATS, the prefetch in RabbitMQ. The handler is called for one message at a time; Redis"
        " and NATS answer with many. The rate counts messages when they reach the client.",
        "- Acks differ in what they promise: see the settings.",
        "- End to end the NATS client fetches one message at a time, because a fetch of several"
        " waits until it has all of them.",
        "- All clients run in Python's own event loop, in one environment; redis-py has hiredis.",
        "- Each system runs on one node. None is tuned beyond what the settings say.",
    )
)
