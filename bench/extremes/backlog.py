"""A large backlog: does a message cost the same at its head, deep inside, and without it?

Three windows of equal size are popped: of a topic that holds little more than the window; at the
head of the large topic; and its last one, after all before it was popped.
"""

import shutil
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from compare import load
from compare.failure import BenchFailure
from extremes import usage
from extremes.outcome import Figure, Outcome
from extremes.services import Services
from extremes.usage import Sample

TITLE = "5,000,000 messages: cost of a pop near and far, memory"
SMALL, LARGE, WARM = "small", "large", "warm"
RATIO = 1.3
"""Cost of a message in the large topic over that in the small one."""
GROWTH = 1.1
"""Anonymous memory at the end of the popping over that at its begin."""
RECEIVERS, RECEIVE_BATCH = 16, 32
OVERSHOOT = RECEIVERS * RECEIVE_BATCH
"""A run of loadgen may take so many messages more than it was asked to."""
STEPS = 10
"""Runs of loadgen in which what lies between the windows is popped."""
RECORD_OVERHEAD_BYTES = 400
PER_S = 500
"""Messages a second that a server is believed to manage, for the time allowed alone."""


@dataclass(frozen=True)
class Plan:
    """How many messages lie where."""

    small: int
    window: int
    large: int
    step: int
    """Size of one of STEPS runs between the windows."""


def plan(messages: int, window: int) -> Plan:
    """Raises a failure when the windows do not fit."""
    between = messages - 2 * window - (STEPS + 2) * OVERSHOOT
    if between < STEPS:
        least = 2 * window + (STEPS + 2) * OVERSHOOT + STEPS
        raise BenchFailure(f"--messages {messages} is too few for two windows: at least {least}")
    return Plan(window + OVERSHOOT, window, messages, between // STEPS)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=5_000_000, help="of the large backlog")
    parser.add_argument("--size", type=int, default=1_024, help="bytes of a body")
    parser.add_argument("--window", type=int, default=50_000, help="messages of one figure")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between memory samples")


def variables(options: Namespace) -> dict[str, str]:
    return {}


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    sizes = plan(options.messages, options.window)
    needed = (sizes.large + 2 * sizes.small) * (options.size + RECORD_OVERHEAD_BYTES)
    if shutil.disk_usage(services.folder).free < needed * 1.2:
        raise BenchFailure(f"{needed / 2**30:.0f} GiB of disk are needed; fewer: --messages")
    services.start()
    for name in (WARM, SMALL, LARGE):
        services.make_topic(name)
        services.make_group(name, "first")
    fill(services, WARM, sizes.small, options.size)
    pop(services, WARM, sizes.window)
    fill(services, SMALL, sizes.small, options.size)
    base = pop(services, SMALL, sizes.window)
    say(f"backlog of {sizes.small:,}: {_told(base)}")
    filled = fill(services, LARGE, sizes.large, options.size)
    say(f"{sizes.large:,} messages are there, {filled['messages_per_s']:,.0f} a second")
    with usage.watched(usage.everyone(services.processes()), options.every) as samples:
        head = pop(services, LARGE, sizes.window)
        say(f"head of {sizes.large:,}: {_told(head)}")
        for step in range(1, STEPS + 1):
            between = pop(services, LARGE, sizes.step)
            say(f"{step} of {STEPS} parts between: {_told(between)}")
        deep = pop(services, LARGE, sizes.window)
        say(f"deep inside: {_told(deep)}")
    settings = {"messages": sizes.large, "size": options.size, "window": sizes.window}
    settings |= {"front": options.front}
    return Outcome("backlog", settings, figures(base, head, deep, samples))


def figures(
    base: load.Figures, head: load.Figures, deep: load.Figures, samples: list[Sample]
) -> list[Figure]:
    """The three windows, their ratios, and how memory went while the large topic was popped."""
    found = []
    for name, part in (("small backlog", base), ("head", head), ("deep", deep)):
        found.append(Figure(f"popped and acked, {name}", part.messages_per_s, "msg/s"))
        found.append(Figure(f"server CPU, {name}", part.server_cpu_us, "µs per message"))
    for name, part in (("head", head), ("deep", deep)):
        ratio = part.server_cpu_us / base.server_cpu_us
        found.append(Figure(f"CPU, {name} ÷ small backlog", ratio, "", below=RATIO))
    other = max(part.other_percent for part in (base, head, deep))
    anonymous = [sample.memory.anonymous_mib for sample in samples]
    found += [
        Figure("memory (anonymous), first", anonymous[0], "MiB"),
        Figure("memory (anonymous), highest", max(anonymous), "MiB"),
        Figure("memory (anonymous), last", anonymous[-1], "MiB"),
        Figure("memory (anonymous), end ÷ begin", usage.growth(anonymous), "", below=GROWTH),
        Figure("CPU of other programs, at most", other, "% of a core"),
        Figure("memory (resident), highest", max(s.memory.total_mib for s in samples), "MiB"),
    ]
    return found


def fill(
    services: Services, topic: str, messages: int, size: int, *, topics: int = 1
) -> load.Report:
    """Send so many messages, in batches; of several topics `topic` is the head of their names."""
    seconds = 60 + messages / PER_S
    flags = ["-mode", "sendbatch", "-topic", topic, "-size", str(size), "-batch", "32"]
    flags += ["-messages", str(-(-messages // 32) * 32), "-inflight", "16", "-conns", "8"]
    flags += ["-topics", str(topics), "-warmup", "0s", "-duration", f"{seconds:g}s"]
    report = services.load(flags, seconds)
    if report["sent"] < messages:
        raise BenchFailure(f"only {report['sent']} of {messages} messages could be sent")
    return report


def pop(services: Services, name: str, messages: int) -> load.Figures:
    """Receive and ack so many messages, or a few more."""
    seconds = 60 + messages / PER_S
    flags = ["-mode", "consume", "-topic", name, "-group", name, "-take", str(messages)]
    flags += ["-receivers", str(RECEIVERS), "-recv-batch", str(RECEIVE_BATCH), "-ack-batch", "32"]
    flags += ["-conns", "8", "-poll", "1s", "-warmup", "0s", "-duration", f"{seconds:g}s"]
    report = services.load(flags, seconds)
    if report["count"] < messages:
        raise BenchFailure(f"only {report['count']} of {messages} messages came from {name}")
    return load.figures(report, "receive")


def _told(part: load.Figures) -> str:
    return f"{part.messages_per_s:,.0f} msg/s, {part.server_cpu_us:,.0f} µs CPU per message"
