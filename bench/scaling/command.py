"""The command line: which numbers of cores, how much of a core each gets, which loads."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compare.failure import BenchFailure, status_of
from compare.page import put
from scaling.report import svg, table
from scaling.run import LOADS, Point, Programs, measured

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance" / "cores.md"
STANDALONE = "table", PAGE.with_suffix(".svg")
CLUSTER = "cluster", PAGE.with_name("cores-cluster.svg")
"""The mark in the page where the table goes, and the picture."""


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("scaling", lambda: _main(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="scaling", description="A standalone on several cores.")
    made.add_argument("--cores", default="1,2,4,8,16", help="numbers, separated by commas")
    made.add_argument("--cluster", action="store_true", help="a broker and a proxy instead")
    made.add_argument("--quota", type=float, default=0.1, help="of a core, for each worker")
    made.add_argument("--loads", default=",".join(LOADS), help="names, separated by commas")
    made.add_argument("--seconds", type=float, default=10.0, help="measured, for each point")
    made.add_argument("--popmq", type=Path, default=ROOT / ".venv-compiled" / "bin" / "popmq")
    made.add_argument("--loadgen", type=Path, default=ROOT / "bench" / "loadgen" / "loadgen")
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--write", action="store_true", help="into docs/performance/cores.md")
    return made


def _main(options: argparse.Namespace) -> int:
    loads = [_load(name) for name in options.loads.split(",")]
    cores = sorted({int(one) for one in options.cores.split(",")})
    programs = Programs(options.popmq.absolute(), options.loadgen.absolute())
    curves: dict[str, list[Point]] = {}
    for load in loads:
        curves[load] = []
        for number in cores:
            one = measured(
                programs,
                LOADS[load],
                number,
                options.quota,
                options.seconds,
                cluster=options.cluster,
            )
            curves[load].append(one)
            if not options.json:
                print(
                    f"{load}, {number} cores: {one.messages_per_s:,.0f} messages/s, "
                    f"{one.cpu_us:.0f} µs, others {one.other_percent:.0f} %",
                    flush=True,
                )
    if options.json:
        print(json.dumps(_document(curves, options), indent=2))
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        mark, picture = CLUSTER if options.cluster else STANDALONE
        PAGE.write_text(put(page, mark, table(curves)), encoding="utf-8")
        picture.write_text(svg(curves), encoding="utf-8")
    return 0


def _load(name: str) -> str:
    if name not in LOADS:
        raise BenchFailure(f"no load {name}; there are {', '.join(LOADS)}")
    return name


def _document(curves: dict[str, list[Point]], options: argparse.Namespace) -> dict[str, Any]:
    points = {load: [asdict(one) for one in found] for load, found in curves.items()}
    return {"quota": options.quota, "seconds": options.seconds, "points": points}
