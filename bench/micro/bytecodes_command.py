"""Bytecodes per message, beside those that were recorded.

PYTHONPATH=bench python -m micro.bytecodes_command [--write] [--functions 'send 32']
"""

import argparse
import json
import subprocess
import sys

from micro.__main__ import HERE, NAMES, environment
from micro.bytecodes import PYTHON, record, recorded, verdict

COUNT = 1_280
"""Messages of a round; a multiple of what each case does at a time."""
ROUNDS = 2
"""The first one makes what is kept; the second is counted."""
CASE_S = 60.0
FUNCTIONS = 20
HINT = "make bytecodes WRITE=1"


def counted(name: str) -> dict[str, int]:
    """Function → bytecodes in a round."""
    done = subprocess.run(
        [sys.executable, "-m", "micro.worker", name, "bytecodes"],
        input=f"{COUNT}\n" * ROUNDS,
        env=environment(HERE),
        capture_output=True,
        text=True,
        timeout=CASE_S,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(names: list[str]) -> tuple[dict[str, int], bool]:
    """(case → bytecodes per message, none of them is a failure)."""
    before = recorded().get(PYTHON, {})
    now: dict[str, int] = {}
    is_well = True
    print(f"{'bytecodes per message':32}{'recorded':>10}{'now':>10}")
    for name in names:
        now[name] = round(sum(counted(name).values()) / COUNT)
        known = before.get(name)
        says = verdict(now[name], known)
        is_well = is_well and not says.startswith("FAILED")
        print(f"{name:32}{known or '-':>10}{now[name]:>10}  {says}", flush=True)
    return now, is_well


def show_functions(name: str) -> None:
    found = counted(name)
    total = sum(found.values())
    print(f"{name}: {total / COUNT:,.0f} bytecodes per message")
    for function, count in list(found.items())[:FUNCTIONS]:
        print(f"{count / COUNT:8.1f} {count / total:6.1%}  {function}")


def main() -> int:
    made = argparse.ArgumentParser(prog="bytecodes", description="Bytecodes per message.")
    made.add_argument("--write", action="store_true", help="record what is counted")
    made.add_argument("--functions", default="", help="of cases whose names contain this")
    options = made.parse_args()
    names = [name for name in NAMES if not name.startswith("sdk")]  # those wait for a server
    if options.functions:
        for name in names:
            if options.functions in name:
                show_functions(name)
        return 0
    now, is_well = compare(names)
    if options.write:
        record(now)
    elif not is_well:
        print(f"If it has to be so, say why in the commit, and record it: {HINT}")
    return 0 if is_well or options.write else 1


if __name__ == "__main__":
    sys.exit(main())
