"""`python -m sdk_compare`: both Python clients before one server, in turns.

Each client is one process, with messages of 1 KiB; nameserver, broker and proxy are a process
each, and answer what is on disk. First each documented way of the official client is tried for a
moment, which warms up both, too. Then its best way to send and its best way to receive and ack take
turns with ours, and the best of each is held against the other's. After each turn the server is
asked whether it has stored or settled what was counted, and every body that was received is
compared with the one that was sent. Ends with 1 when the goal is not reached.
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from popmq import Message
from popmq.sync import SyncClient
from sdk_compare import report
from sdk_compare.counting import BODY
from sdk_compare.server import POPMQ, apart, new_group
from sdk_compare.sides import Row, Server, Side, official, ours

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compare-python-clients.md"
TRIED_S = 3.0
OURS = ("send", "send_many", "receive and ack by a handler", "receive and ack by calls")
BACKLOG_MIN, BACKLOG_OVER = 20_000, 2.0
"""Before a receive so many messages wait at least, and so many times what it is likely to take."""


class Bench:
    def __init__(self, endpoint: str, server: Server) -> None:
        self._endpoint, self._server = endpoint, server
        self._last: dict[tuple[str, str], float] = {}

    def run(self, side: Side, way: str, seconds: float) -> Row:
        if not way.startswith("send"):
            likely = self._last.get((side.name, way), 0.0) * seconds * BACKLOG_OVER
            self._fill(side, max(BACKLOG_MIN, int(likely)))
        row = side.run(way, seconds, self._server)
        self._last[side.name, way] = row.rate
        print(f"{side.name}, {way}: {row.rate:,.0f} a second", file=sys.stderr, flush=True)
        return row

    def _fill(self, side: Side, wanted: int) -> None:
        waiting = self._server.stored(side.topic) - self._server.acked(side.group, side.topic)
        if waiting < wanted:
            send(self._endpoint, side.topic, wanted - waiting)


def send(endpoint: str, topic: str, count: int) -> None:
    with SyncClient(endpoint) as client:
        client.producer().send_many(topic, [Message(body=BODY)] * count)


def compare(endpoint: str, home: str, rounds: int, seconds: float) -> tuple[str, object, bool]:
    """The table, the document, and whether the goal is reached."""
    with ExitStack() as stack:
        server = stack.enter_context(closing(Server(endpoint)))
        theirs = stack.enter_context(closing(official(endpoint, home)))
        mine = stack.enter_context(closing(ours(endpoint, home)))
        bench = Bench(endpoint, server)
        tried = {way: bench.run(theirs, way, TRIED_S) for way in theirs.ways}
        mine_tried = {way: bench.run(mine, way, TRIED_S) for way in OURS}
        best = {kind: report.fastest(tried, kind) for kind in report.KINDS}
        judged = {kind: report.fastest(mine_tried, kind) for kind in report.KINDS}
        found: dict[str, dict[str, list[Row]]] = {"official": {}, "popmq": {}}
        for turn in range(rounds):
            for kind in report.KINDS:
                todo = [(theirs, best[kind])]
                todo += [(mine, way) for way in OURS if way.startswith(kind)]
                for side, way in todo if turn % 2 else todo[::-1]:
                    row = bench.run(side, way, seconds)
                    found[side.name].setdefault(way, []).append(row)
    seen = [one for client, ways in found.items() for one in report.seen(client, ways)]
    ratios = [
        report.ratio(
            kind,
            (judged[kind], found["popmq"][judged[kind]]),
            (best[kind], found["official"][best[kind]]),
        )
        for kind in report.KINDS
    ]
    text = report.table(tried, seen, ratios)
    return text, report.document(tried, found, ratios), all(one.reached for one in ratios)


def main() -> None:
    made = argparse.ArgumentParser(prog="sdk_compare", description=__doc__)
    made.add_argument("--rounds", type=int, default=5, help="at least 3")
    made.add_argument("--seconds", type=float, default=4.0, help="of each turn")
    made.add_argument("--json", action="store_true", help="each round, for programs")
    made.add_argument("--write", action="store_true", help=f"the table goes into {PAGE.name}")
    made.add_argument("--popmq", type=Path, default=Path(POPMQ), help="the command of the server")
    options = made.parse_args()
    if options.rounds < 3:
        made.error("a median needs 3 rounds at least")
    with tempfile.TemporaryDirectory() as folder, apart(Path(folder), options.popmq) as endpoint:
        for name in ("official", "popmq"):
            new_group(endpoint, f"group-{name}")
            send(endpoint, f"topic-{name}", 1)  # makes the topic
        text, document, reached = compare(endpoint, folder, options.rounds, options.seconds)
    print(json.dumps(document, indent=1) if options.json else text)
    if options.write:
        PAGE.write_text(report.written_into(PAGE.read_text(), text))
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
