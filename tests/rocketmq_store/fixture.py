"""`python -m rocketmq_store.fixture FILE`: a small directory written by Apache RocketMQ, packed.

Messages with tags, keys and message groups, delayed ones, transactions of each fate, leases that
are acked, that ended, and that live. What tests read of it is in the archive: CommitLog, queues,
tables, checkpoint. Beside it, what whoever wrote it knows of its own:

    noted/sent.jsonl    {number, topic, tag, id, crc, size, fate?, later?} of each message
    noted/taken.jsonl   {group, topic, acked, held} of each group: numbers of messages
    noted/read.jsonl    each message of each queue as RocketMQ's client read it, before the stop
    noted/queues.jsonl  {topic, queue, min, max} as RocketMQ's broker told them, before the stop
"""

import asyncio
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rocketmq_store import mix
from rocketmq_store.exchange import SEED, Exchange, consume, everything, special
from rocketmq_store.ours import Taken
from rocketmq_store.theirs import (
    Line,
    Missing,
    check_prerequisites,
    compile_judge,
    rocketmq,
    write_lines,
)

MESSAGES: Final = 600
BODY_BYTES_MAX: Final = 12
"""Random bytes do not become smaller."""
PACKED: Final = ("commitlog", "consumequeue", "config", "checkpoint", "noted")
FAR_MS: Final = 3_600_000
"""What waits so long is not delivered before the stop."""
SOON_MS: Final = 10_000
TAKEN_OF: Final = {
    "done": "events",
    "again": mix.LONG_NAME,
    "lined": "steps",
    "half": "orders",
}
_READ: Final = ("topic", "queue", "offset", "log", "size", "stored", "born", "sys", "tries")


def write(folder: Path) -> Path:
    """Returns the directory, of a broker that was stopped."""
    exchange = Exchange(folder, compile_judge(folder / "classes"), MESSAGES)
    items = [
        replace(
            item,
            size=min(item.size, BODY_BYTES_MAX),
            zip=False,
            properties={"number": str(item.number)},
        )
        for item in mix.items(MESSAGES, SEED)
    ]
    directory = folder / "broker"
    directory.mkdir()
    with rocketmq(folder / "home", directory, exchange.classes, with_proxy=True) as server:
        server.set_up(everything())
        lines = [item.line() for item in items]
        lines += [_far(line) for line in special(items, MESSAGES)]
        answered = server.write(lines, exchange.pool_path)
        taken = asyncio.run(consume(server.endpoint, MESSAGES, rejects=False))
        rows, state = server.rows(), server.state()
    note(directory / "noted", _sent(lines, answered, exchange.pool), taken, rows, state)
    return directory


def note(
    folder: Path,
    sent: Iterable[Line],
    taken: Mapping[str, Taken],
    rows: Iterable[Line],
    state: Iterable[Line],
) -> None:
    folder.mkdir()
    write_lines(folder / "sent.jsonl", sent)
    write_lines(
        folder / "taken.jsonl",
        (
            {"group": group, "topic": topic}
            | {"acked": sorted(taken[group].acked), "held": sorted(taken[group].held)}
            for group, topic in TAKEN_OF.items()
        ),
    )
    write_lines(folder / "read.jsonl", (_read(row) for row in rows))
    write_lines(
        folder / "queues.jsonl",
        (
            {"topic": line["in"], "queue": line["queue"], "min": line["min"], "max": line["max"]}
            for line in state
            if "min" in line
        ),
    )


def _far(line: Line) -> Line:
    return {**line, "delayMs": FAR_MS} if line.get("delayMs", 0) > SOON_MS else line


def _sent(lines: Iterable[Line], answered: Iterable[Line], pool: bytes) -> Iterator[Line]:
    ids = {line["number"]: line["id"] for line in answered}
    for line in lines:
        body = pool[line["at"] : line["at"] + line["size"]]
        told = {name: line[name] for name in ("number", "topic", "tag", "size")}
        told |= {"id": ids[line["number"]], "crc": zlib.crc32(body) & 0x7FFFFFFF}
        if "fate" in line:
            told["fate"] = line["fate"]
        if "delayMs" in line or "level" in line:
            told["later"] = "far" if line.get("delayMs") == FAR_MS else "soon"
        yield told


def _read(row: Line) -> Line:
    named = row["properties"]
    told = {name: row[name] for name in _READ}
    return {**told, "id": named.get("UNIQ_KEY"), "tag": named.get("TAGS")}


def main(target: Path) -> int:
    try:
        check_prerequisites()
    except Missing as missing:
        print(f"make rocketmq-fixture: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="popmq-rocketmq-fixture-") as folder:
        directory = write(Path(folder))
        command = ["tar", "--sparse", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        command += ["-C", str(directory), "-cJf", str(target), *PACKED]
        subprocess.run(command, check=True)
    print(f"{target}: {target.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
