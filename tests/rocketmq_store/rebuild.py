"""RocketMQ makes queues and index from our log alone: are they the bytes that we wrote?"""

import asyncio
import shutil
from pathlib import Path

from rocketmq_store import mix, ours
from rocketmq_store.compare import Different, agree
from rocketmq_store.exchange import GROUPS, SEED, Exchange, check_log
from rocketmq_store.theirs import rocketmq

SETTLE_S = 5.0


async def rebuilt_by_rocketmq(exchange: Exchange) -> None:
    """Without `checkpoint`, queues and index, and with `abort`: as after the worst of crashes.

    RocketMQ then reads and checks every record of the log. Raises `Different`.
    """
    items = mix.items(exchange.count, SEED + 1)
    with ours.popmq(exchange.folder / "ours") as server:
        for name, (queues, kind) in mix.TOPICS.items():
            server.cli("topic", "create", name, "--queues", str(queues), "--type", kind)
        for group, fifo in GROUPS.items():
            server.cli("group", "create", group, "--from", "first", *(["--fifo"] if fifo else []))
        await ours.send(server.endpoint, items, exchange.pool)
        await ours.take(server.endpoint, "orders", "half", 100, invisible_s=900, acked=0.5)
    source = exchange.folder / "ours" / "broker-a"
    directory = exchange.copy(source, "crashed")
    shutil.rmtree(directory / "consumequeue")
    shutil.rmtree(directory / "index")
    (directory / "checkpoint").unlink()
    (directory / "abort").touch()
    with rocketmq(
        exchange.folder / "home",
        directory,
        exchange.classes,
        settings={"enabledAppendPropCRC": "true", "forceVerifyPropCRC": "true"},
    ) as judge:
        await asyncio.sleep(SETTLE_S)  # it dispatches in the background
    check_log(exchange, judge.complaints())
    wanted, found = _queues(source), _queues(directory)
    agree(
        "queues",
        (
            f"{path}: {len(data)} bytes, RocketMQ made {len(found.get(path, b''))}"
            for path, data in wanted.items()
            if not found.get(path, b"").startswith(data)
        ),
    )
    size = sum(map(len, wanted.values()))
    exchange.tell(f"{len(wanted)} queue files, {size} bytes of entries: the same bytes")
    ours_made, made = _indexes(source), _indexes(directory)
    same = [a == b for a, b in zip(ours_made, made, strict=False)]
    if not ours_made or len(made) != len(ours_made) or not all(same):
        raise Different(f"{len(ours_made)} index files, RocketMQ made {len(made)}: {same}")
    exchange.tell(f"{len(made)} index files: the same bytes")


def _indexes(directory: Path) -> list[bytes]:
    """In their order; each broker names them by a time of its own."""
    return [path.read_bytes() for path in sorted((directory / "index").iterdir())]


def _queues(directory: Path) -> dict[str, bytes]:
    """Contents of the queues' files, without the unused end."""
    root = directory / "consumequeue"
    return {
        str(path.relative_to(root)): path.read_bytes().rstrip(b"\0")
        for path in sorted(root.glob("*/*/*"))
    }
