"""`python -m sdk_compare [SECONDS]`: both Python clients before one standalone.

Each client is one process. The official one may send in its best way of three, and receive in its
best of two; beside it stands ours. Judged are messages per second; CPU time per message is the
figure to trust on a machine that does other things too.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from sdk_compare.server import standalone

ROOT = Path(__file__).resolve().parents[2]
OFFICIAL = "rocketmq-python-client==5.1.2"
HERE = Path(__file__).parent
GOAL = 10.0


def official_python() -> Path:
    """The environment that the tests of compatibility use too."""
    folder = ROOT / ".venv-compat-python"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", OFFICIAL], check=True)
    return python


def load(command: list[str], endpoint: str, name: str, seconds: float, home: str) -> Any:
    """What a client's process prints."""
    paths = os.pathsep.join([str(ROOT / "bench"), *filter(None, [os.environ.get("PYTHONPATH")])])
    arguments = [*command, endpoint, f"topic-{name}", f"group-{name}", str(seconds)]
    done = subprocess.run(
        arguments,
        env={**os.environ, "HOME": home, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def rate(row: dict[str, float]) -> float:
    return row["messages"] / row["seconds"]


def best(rows: dict[str, dict[str, float]], word: str) -> tuple[str, dict[str, float]]:
    """The fastest of the rows whose name begins so."""
    of_kind = [item for item in rows.items() if item[0].startswith(word)]
    return max(of_kind, key=lambda item: rate(item[1]))


def main(arguments: list[str]) -> None:
    seconds = float(arguments[0]) if arguments else 10.0
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder)) as endpoint:
        groups = ["group-official", "group-popmq"]
        for group in groups:
            popmq = str(Path(sys.executable).with_name("popmq"))
            make = [popmq, "group", "create", group, "--from", "first", "--endpoint", endpoint]
            subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        official = load(
            [str(official_python()), str(HERE / "load_official.py")],
            endpoint,
            "official",
            seconds,
            folder,
        )
        ours = load(
            [sys.executable, "-m", "sdk_compare.load_popmq"], endpoint, "popmq", seconds, folder
        )
    print("| client | load | msg/s | CPU µs per message |\n| --- | --- | ---: | ---: |")
    for client, rows in (("official", official), ("popmq", ours)):
        for name, row in rows.items():
            cpu_us = row["cpu_s"] / max(row["messages"], 1) * 1e6
            print(f"| {client} | {name} | {rate(row):,.0f} | {cpu_us:,.0f} |")
    reached = True
    for word in ("send", "receive"):
        name, row = best(official, word)
        mine, my_row = best(ours, word)
        ratio = rate(my_row) / rate(row)
        reached = reached and ratio >= GOAL
        print(f"{mine} is {ratio:.1f} times {name} of the official client; wanted: {GOAL:g}")
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
