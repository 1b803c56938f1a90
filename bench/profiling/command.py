"""`make profile`: starts PopMQ, loads it, samples its processes, writes what was seen."""

import argparse
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compare.failure import status_of
from compare.load import Report
from extremes.command import BENCH, add_common_options, say, tools_of
from extremes.services import Services, services
from profiling import spy, stacks

NAME = "profile"
WARMUP_S = 5
ATTACH_S = 5
"""What py-spy may take to attach, and to write, each time."""
SEEN = {
    False: "taken while a thread held the interpreter.",
    True: "threads that wait in C code among them.",
}
"""What is sampled, by whether waiting threads are."""
LOADS = {
    "send": ["-mode", "send", "-inflight", "64"],
    "e2e": ["-mode", "e2e", "-inflight", "64", "-receivers", "32", "-drain", "60s"],
}


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("profile", lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    print(_run(options))
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="profiling", description="Where the time goes.")
    made.add_argument("--load", choices=sorted(LOADS), default="e2e")
    made.add_argument("--rate", type=float, default=500.0, help="messages a second; 0: saturated")
    made.add_argument("--seconds", type=int, default=10, help="of a recording; there are two")
    made.add_argument("--top", type=int, default=25, help="functions in the table")
    made.add_argument("--native", action="store_true", help="C functions too; costs more")
    made.add_argument(
        "--waiting", action="store_true", help="also threads without the interpreter, in C code"
    )
    made.add_argument("--out", type=Path, default=BENCH / "results/profile")
    add_common_options(made)
    return made


def _run(options: argparse.Namespace) -> str:
    tools, py_spy = tools_of(options), spy.find(options.popmq.absolute())
    options.out.mkdir(parents=True, exist_ok=True)
    with services(tools, options.work.absolute(), options.front, {}) as server:
        server.start()
        server.make_topic(NAME)
        server.make_group(NAME, "first")
        pids = python_pids(server.processes())
        seconds = WARMUP_S + len(spy.FORMATS) * (options.seconds + ATTACH_S)
        with ThreadPoolExecutor(max_workers=1) as pool:
            loading = pool.submit(_load, server, options, seconds)
            time.sleep(WARMUP_S)
            _record(py_spy, pids, options)
            report = loading.result()
    return _write(options, report, list(pids))


def python_pids(by_name: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Of the broker and the proxy."""
    return {name: by_name[name][0] for name in ("broker", "proxy")}


def _load(server: Services, options: argparse.Namespace, seconds: int) -> Report:
    flags = [*LOADS[options.load], "-topic", NAME, "-group", NAME, "-conns", "4"]
    flags += ["-rate", f"{options.rate:g}", "-warmup", f"{WARMUP_S}s"]
    return server.load([*flags, "-duration", f"{seconds - WARMUP_S}s"], seconds)


def _record(py_spy: Path, pids: Mapping[str, int], options: argparse.Namespace) -> None:
    more = [] if options.waiting else ["--gil"]
    more += ["--native"] if options.native else []
    for kind, ending in spy.FORMATS.items():
        say(f"{options.seconds} s: {kind} of {', '.join(pids)}")
        commands = {
            name: spy.command(
                py_spy,
                pid,
                kind,
                options.out / f"{name}-{options.front}.{ending}",
                options.seconds,
                more,
            )
            for name, pid in pids.items()
        }
        spy.record(commands, options.seconds)


def _write(options: argparse.Namespace, report: Report, names: Sequence[str]) -> str:
    """The tables; also into a file beside the flame graphs."""
    parts = [
        f"# Profile, {options.load}, front {options.front}",
        f"{report['messages_per_s']:,.0f} msg/s. Shares are of the samples, {SEEN[options.waiting]}"
        " A function's own time has that of C code it calls.",
    ]
    for name in names:
        used = report["cpu"][name]
        file = options.out / f"{name}-{options.front}.folded"
        lines = file.read_text().splitlines()
        seen = stacks.samples(lines) / (options.seconds * spy.SAMPLES_PER_S)
        parts += [
            f"## {name}",
            f"{used['cpu_percent']:.0f} % of a core, {used['cpu_us_per_message']:.0f} µs per"
            f" message. Seen in {seen * 100:.0f} % of {options.seconds} s; flame graph:"
            f" {name}-{options.front}.svg",
            stacks.top(stacks.shares(lines), options.top),
        ]
    text = "\n\n".join(parts) + "\n"
    (options.out / f"top-{options.front}.md").write_text(text)
    return text
