"""Very many long polls: what they cost while nothing happens, and how fast one is woken."""

from argparse import ArgumentParser, Namespace
from typing import Any

from compare.load import GENERATOR, Report
from extremes.outcome import Figure, Outcome
from extremes.services import Services

TITLE = "10,000 long polls: memory, idle CPU, wake-up"
TOPIC, GROUP = "polls", "polls-group"
RSS_MIB, IDLE_PERCENT, WAKE_P99_MS = 400.0, 10.0, 50.0
SEVERAL = 1.5
"""So many times the memory of one broker may be taken when the topics are on several."""
POLL_SLACK_S = 60.0


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--polls", type=int, default=10_000, help="polls parked at a time")
    parser.add_argument("--brokers", type=int, default=1, help="that each topic is on")
    parser.add_argument("--connections", type=int, default=16, help="that the polls share")
    parser.add_argument("--topics", type=int, default=8, help="that the polls are spread over")
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second")
    parser.add_argument("--warmup", type=float, default=20.0, help="seconds; half to open polls")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds without sends")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured time")


def run_s(options: Namespace) -> float:
    """Seconds from the first poll to the end of the window, and a reserve."""
    return float(options.warmup + options.idle + options.seconds) + POLL_SLACK_S


def variables(options: Namespace) -> dict[str, str]:
    """No poll ends by itself while the benchmark runs, and all may be under way."""
    return {
        "POPMQ_PROXY_POLL_MS_MAX": str(int(run_s(options) * 1000)),
        "POPMQ_PROXY_RPCS_MAX": str(max(80_000, 2 * options.polls)),
        "POPMQ_BROKER_WAITING_POLLS_MAX": str(max(100_000, options.polls)),
    }


def arguments(options: Namespace) -> list[str]:
    """Flags of loadgen."""
    flags = ["-mode", "polls", "-topic", TOPIC, "-topics", str(options.topics), "-group", GROUP]
    flags += ["-receivers", str(options.polls), "-conns", str(options.connections)]
    flags += ["-rate", f"{options.rate:g}", "-poll", f"{run_s(options):g}s"]
    flags += ["-warmup", f"{options.warmup:g}s", "-idle", f"{options.idle:g}s"]
    return [*flags, "-duration", f"{options.seconds:g}s", "-drain", "30s"]


def run(services: Services, options: Namespace, say: Any) -> Outcome:
    services.start()
    names = [TOPIC] if options.topics == 1 else [f"{TOPIC}{i}" for i in range(options.topics)]
    for name in names:
        services.make_topic(name)
    services.make_group(GROUP, "last")
    say(f"{options.polls:,} polls, then {options.idle:g} s idle, then {options.rate:g} msg/s")
    report = services.load(arguments(options), run_s(options))
    settings = {"polls": options.polls, "connections": options.connections}
    settings |= {"topics": options.topics, "rate": options.rate, "front": options.front}
    settings["brokers"] = options.brokers
    return Outcome("polls", settings, figures(report, options.brokers))


def figures(report: Report, brokers: int = 1) -> list[Figure]:
    """What loadgen told, held against the limits."""
    polls, wake = report["polls"], report["end_to_end"]
    idle = {name: used for name, used in polls["idle_cpu"].items() if name != GENERATOR}
    found = [
        Figure("polls parked", polls["parked"], "", exactly=polls["wanted"]),
        Figure("polls parked after idle", polls["parked_after_idle"], "", exactly=polls["wanted"]),
        Figure("empty answers that came early", polls["early_empty"], "", exactly=0),
        Figure("messages", report["count"], ""),
        Figure("missing", report["missing"], "", exactly=0),
        Figure("wake-up p50", wake["p50_ms"], "ms"),
        Figure("wake-up p90", wake["p90_ms"], "ms"),
        Figure("wake-up p99", wake["p99_ms"], "ms", below=WAKE_P99_MS),
    ]
    for name, used in sorted(idle.items()):
        found.append(Figure(f"idle CPU, {name}", used["cpu_percent"], "% of a core"))
    idle_percent = sum(used["cpu_percent"] for used in idle.values())
    found.append(Figure("idle CPU, all", idle_percent, "% of a core", below=IDLE_PERCENT))
    for name, used in sorted(idle.items()):
        found.append(Figure(f"memory, {name}", used["rss_mib"], "MiB"))
    rss_mib = sum(used["rss_mib"] for used in idle.values())
    limit_mib = RSS_MIB if brokers == 1 else RSS_MIB * SEVERAL
    found.append(Figure("memory, all", rss_mib, "MiB", below=limit_mib))
    other = {"idle": polls["idle_other_cpu_percent"], "waking": report["other_cpu_percent"]}
    for when, percent in other.items():
        found.append(Figure(f"CPU of other programs while {when}", percent, "% of a core"))
    return found
