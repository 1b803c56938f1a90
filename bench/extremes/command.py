"""The command line: `NAME` and its options; what all benchmarks share."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from compare.failure import BenchFailure, status_of
from compare.servers import Tools
from extremes import backlog, catch_up, console, export, polls, timers, topics
from extremes.outcome import Outcome
from extremes.services import services

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
BENCHMARKS: dict[str, ModuleType] = {
    "polls": polls,
    "topics": topics,
    "backlog": backlog,
    "timers": timers,
    "export": export,
    "console": console,
    "catch-up": catch_up,
}
ALONE = {"timers"}
"""These run an engine of their own; the others load services."""

MISSED = 1
"""Exit status: beyond a limit (with --check)."""


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("extremes", lambda: _main(options))


def _main(options: argparse.Namespace) -> int:
    outcome = _run(options)
    if options.json:
        print(json.dumps(outcome.document(), indent=2))
    else:
        print(outcome.text())
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(put(page, outcome), encoding="utf-8")
    return MISSED if options.check and outcome.missed else 0


def put(page: str, outcome: Outcome) -> str:
    """The page with these figures between its marks; `ValueError`: it has none."""
    begin, end = (f"<!-- {outcome.name}: {mark} -->" for mark in ("begin", "end"))
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n```\n{outcome.text()}\n```\n{end}{after}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="extremes", description="PopMQ at the edges.")
    names = made.add_subparsers(dest="name", required=True)
    for name, module in BENCHMARKS.items():
        own = names.add_parser(name, help=module.TITLE, description=module.TITLE)
        module.add_options(own)
        add_common_options(own)
        own.add_argument("--json", action="store_true", help="print one JSON document")
        own.add_argument("--check", action="store_true", help="exit 1 when a limit is missed")
        own.add_argument("--write", type=Path, help="put it between the marks of this page, too")
    return made


def add_common_options(made: argparse.ArgumentParser) -> None:
    """Of everything that starts services and loads them."""
    fronts = ["http2", "grpcio"]
    made.add_argument("--front", choices=fronts, default="http2", help="of the proxy")
    made.add_argument("--cores", help="pin servers and load generator to these, such as 0,1")
    made.add_argument("--popmq", type=Path, default=ROOT / ".venv/bin/popmq")
    made.add_argument("--loadgen", type=Path, default=BENCH / "loadgen/loadgen")
    made.add_argument("--work", type=Path, default=BENCH / "run", help="files of the servers")


def tools_of(options: argparse.Namespace) -> Tools:
    """Raises a failure that says how to get what is missing."""
    popmq, loadgen = options.popmq.absolute(), options.loadgen.absolute()
    if not popmq.is_file():
        raise BenchFailure(f"{popmq} is missing: make setup")
    if not loadgen.is_file():
        raise BenchFailure(f"{loadgen} is missing: make bench/loadgen/loadgen")
    return Tools(popmq, popmq, loadgen, BENCH / "anchor/anchor.sh", options.cores)


def _run(options: argparse.Namespace) -> Outcome:
    module = BENCHMARKS[options.name]
    if options.name in ALONE:
        found: Outcome = module.run(None, options, say)
        return found
    variables = module.variables(options)
    place = tools_of(options), options.work.absolute(), options.front, variables
    with services(*place, brokers=getattr(options, "brokers", 1)) as server:
        outcome: Outcome = module.run(server, options, say)
        return outcome


def say(text: str) -> None:
    """Progress, with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
