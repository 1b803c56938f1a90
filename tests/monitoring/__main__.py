"""python -m monitoring INTO [MINUTES]: the dashboards as pictures, of a cluster under load."""

import sys
import tempfile
import time
from pathlib import Path

from board_figures import Span, boards
from monitoring.scraped import audited, loaded, prometheus, scraped
from picture import draw

RATES_MINUTES = 1.0
"""Rates are of the last minute, so pictures begin when there was one."""


def main(into: Path, minutes: float) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            scraped(folder, brokers=2, proxies=2, replicas=3) as (server, targets),
            loaded(server),
            audited(folder / "audit") as audits,
            prometheus(folder, {**targets, "sources": audits}) as address,
        ):
            time.sleep((minutes + RATES_MINUTES) * 60)
            now_s = time.time()
            empty = draw(boards(address, Span(now_s - minutes * 60, now_s)), into)
    for place in empty:
        print(f"{place} is empty", file=sys.stderr)
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 5.0))
