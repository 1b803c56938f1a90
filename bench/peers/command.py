"""The command line: options, the plan, and what is written at the end."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from compare import prerequisites as machines
from compare.failure import FAILED, BenchFailure, status_of
from compare.progress import spoken
from peers import prerequisites, report, results
from peers.rounds import PeersPlan, Rounds
from peers.servers import RABBITMQ, Commands
from peers.systems import DEFAULT, LOADS, SYSTEMS
from peers.turns import Length

ROOT = Path(__file__).resolve().parents[2]
PERFORMANCE = ROOT / "docs" / "performance"
LOST = 1
"""Exit status: a confirmed message was not received."""


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("bench-peers", lambda: _run(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="peers", description=__doc__)
    what = made.add_argument_group("what is measured")
    what.add_argument("--systems", type=_list, default=list(DEFAULT), help=", ".join(SYSTEMS))
    what.add_argument("--rows", type=_list, default=list(LOADS), help=", ".join(LOADS))
    what.add_argument("--processes", type=_list, default=["1", "4"], help="clients, as 1,4")
    what.add_argument("--rounds", type=int, default=3)
    what.add_argument("--seconds", type=float, default=5.0, help="of each window")
    what.add_argument("--messages", type=int, default=100_000, help="at most, of each window")
    what.add_argument("--cores", help="for servers and clients, as of taskset; default: all")
    tools = made.add_argument_group("programs")
    tools.add_argument("--popmq", type=Path, default=ROOT / ".venv-bench/bin/popmq")
    tools.add_argument("--compiled", type=Path, default=ROOT / ".venv-compiled/bin/popmq")
    tools.add_argument("--nats", type=Path, default=ROOT / ".tools/nats-server")
    tools.add_argument("--client-python", type=Path, default=ROOT / ".venv-peers/bin/python")
    tools.add_argument("--work", type=Path, default=ROOT / "bench/run/peers")
    written = made.add_argument_group("what is written")
    written.add_argument("--results", type=Path, help="default: bench/results/peers-DATE-HOST.json")
    written.add_argument("--table", type=Path, default=PERFORMANCE / "peers.md")
    written.add_argument("--plot", type=Path, default=PERFORMANCE / "peers.svg")
    written.add_argument("--no-plot", action="store_true", help="needs no matplotlib")
    written.add_argument("--no-write", action="store_true", help="print the table alone")
    written.add_argument("--report-only", type=Path, metavar="RESULTS", help="measure nothing")
    return made


def _list(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def plan_of(options: argparse.Namespace) -> PeersPlan:
    for words, known in ((options.systems, SYSTEMS), (options.rows, LOADS)):
        if unknown := [word for word in words if word not in known]:
            raise BenchFailure(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    if not all(word.isdigit() and int(word) for word in options.processes):
        raise BenchFailure("--processes takes positive numbers, as 1,4")
    if min(options.rounds, options.messages) < 1 or options.seconds <= 0:
        raise BenchFailure("--rounds, --seconds and --messages must be positive")
    return PeersPlan(
        systems=options.systems,
        rows=options.rows,
        processes=[int(word) for word in options.processes],
        rounds=options.rounds,
        length=Length(options.seconds, options.messages),
    )


def _run(options: argparse.Namespace) -> int:
    if options.report_only:
        return _report(options, results.load(options.report_only))
    plan = plan_of(options)
    commands = Commands(
        popmq=options.popmq.absolute(),
        compiled=options.compiled.absolute(),
        redis=prerequisites.found_in_path("redis-server"),
        nats=options.nats.absolute(),
        rabbitmq=RABBITMQ / "rabbitmq-server",
        client_python=options.client_python.absolute(),
        cores=options.cores,
    )
    prerequisites.check(commands, plan.systems, plot=not options.no_plot)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    kept = results.PeersRecord(
        started=started,
        machine=machines.machine(),
        versions=prerequisites.versions(commands, plan.systems),
        settings={**asdict(plan), "cores": options.cores},
    )
    stamp = started[:16].replace(":", "")
    name = f"peers-{stamp}-{kept.machine['host']}.json"
    path = options.results or ROOT / "bench" / "results" / name
    print(f"about {spoken(plan.estimate_s())}; results in {path}", file=sys.stderr)
    work = options.work.absolute()
    Rounds(plan, commands, work, kept, lambda: results.save(kept, path)).run()
    return _report(options, results.load(path))


def _report(options: argparse.Namespace, kept: results.PeersRecord) -> int:
    with_picture = not (options.no_plot or options.no_write)
    text = report.document(kept, options.plot.name if with_picture else None)
    if options.no_write:
        print(text)
    else:
        _write(options.table, text)
    if with_picture:
        from peers import picture  # matplotlib is in the group `bench` alone

        _write(options.plot, picture.svg(kept))
    if kept.failures:
        print(json.dumps(kept.failures, indent=1), file=sys.stderr)
        return FAILED
    return LOST if results.lost(kept.turns) else 0


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    print(f"wrote {path}", file=sys.stderr)
