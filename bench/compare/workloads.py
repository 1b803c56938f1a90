"""The rows of the benchmark: what load each puts on a server, as arguments for loadgen."""

from collections.abc import Sequence
from dataclasses import dataclass

from compare.failure import BenchFailure

BODY_BYTES = 1024
QUEUES = 8
CONNECTIONS_MAX = 8
TOPIC_PREFIX = "bench-"
GROUP_PREFIX = "bench-group-"
DRAIN_S = 60
"""How long an end-to-end row waits for what was sent and has not come, seconds."""
PRELOAD_PER_S = 15_000
"""Messages a second at which a backlog is taken to be sent, for the estimate alone."""


@dataclass(frozen=True)
class Row:
    """One kind of load."""

    name: str
    title: str
    mode: str
    latency: str
    """Which latency of loadgen's report the row shows: send, receive or end_to_end."""
    inflight: int
    """SendMessage calls at a time."""
    receivers: int = 0
    """ReceiveMessage calls at a time; 0: the row only sends."""
    batch: int = 1
    """Messages in one SendMessage."""
    rate: int = 0
    """Messages a second; 0: as fast as inflight allows."""
    backlog: bool = False
    """Send messages beforehand and receive those."""

    @property
    def receives(self) -> bool:
        return self.receivers > 0


@dataclass(frozen=True)
class Length:
    """How long rows take."""

    seconds: float
    """Measured window of a row."""
    warmup_s: float
    """Load before the window, of each row."""
    messages: int
    """Size of the backlog of a row that has one."""


ROWS = {
    row.name: row
    for row in (
        Row("send-1", "send, 1 in flight", "send", "send", 1),
        Row("send-16", "send, 16 in flight", "send", "send", 16),
        Row("send-128", "send, 128 in flight", "send", "send", 128),
        Row("send-512", "send, 512 in flight", "send", "send", 512),
        Row("send-batch", "send 32 per call, 16 in flight", "sendbatch", "send", 16, batch=32),
        Row(
            "receive",
            "receive 32 and ack, from a backlog",
            "consume",
            "receive",
            16,
            receivers=16,
            batch=32,
            backlog=True,
        ),
        Row("e2e", "end to end, saturated", "e2e", "end_to_end", 64, receivers=32),
        Row("e2e-1000", "end to end, 1,000 msg/s", "e2e", "end_to_end", 256, 32, rate=1000),
    )
}


def chosen(names: Sequence[str]) -> list[Row]:
    """The rows of these names, in the table's order; all of them for no name."""
    unknown = sorted(set(names) - ROWS.keys())
    if unknown:
        raise BenchFailure(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [row for row in ROWS.values() if not names or row.name in names]


def arguments(row: Row, index: int, length: Length) -> list[str]:
    """Flags for loadgen; `index` numbers the row's own topic and group."""
    flags = _common(row.mode, index, row.inflight, row.receivers)
    flags += ["-batch", str(row.batch)]
    flags += ["-warmup", f"{length.warmup_s:g}s", "-duration", f"{length.seconds:g}s"]
    if row.rate:
        flags += ["-rate", str(row.rate)]
    if row.backlog:
        flags += ["-messages", str(length.messages)]
    if row.mode == "e2e":
        flags += ["-drain", f"{DRAIN_S}s"]
    return flags


def warmups(seconds: float, first_index: int) -> list[list[str]]:
    """Loads that bring a server to speed: sends, then sends and receives, half the time each."""
    half = ["-warmup", "0s", "-duration", f"{seconds / 2:g}s"]
    return [
        [*_common("send", first_index, 64, 0), *half],
        [*_common("e2e", first_index + 1, 16, 32), *half, "-drain", "30s"],
    ]


def one_message(index: int) -> list[str]:
    """A load of one message, to see whether the server confirms sends."""
    once = ["-messages", "1", "-warmup", "0s", "-duration", "5s", "-rpc-timeout", "5s"]
    return [*_common("send", index, 1, 0), *once]


def _common(mode: str, index: int, inflight: int, receivers: int) -> list[str]:
    connections = min(CONNECTIONS_MAX, max(inflight, receivers))
    flags = ["-mode", mode, "-topic", topic(index), "-size", str(BODY_BYTES)]
    flags += ["-inflight", str(inflight), "-conns", str(connections)]
    if receivers:
        flags += ["-group", group(index), "-receivers", str(receivers)]
        flags += ["-recv-batch", "32", "-ack-batch", "32"]
    return flags


def topic(index: int) -> str:
    return f"{TOPIC_PREFIX}{index}"


def group(index: int) -> str:
    return f"{GROUP_PREFIX}{index}"


def estimate_s(row: Row, length: Length) -> float:
    """Seconds a row takes, roughly."""
    preload_s = length.messages / PRELOAD_PER_S if row.backlog else 0.0
    return length.warmup_s + length.seconds + preload_s + (3.0 if row.receives else 0.5)
