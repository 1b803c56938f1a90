"""RocketMQ makes queues and index from our log alone: do they say what ours say?"""

import asyncio
import shutil
from pathlib import Path

from rocketmq_store import mix, ours
from rocketmq_store.compare import Different, agree
from rocketmq_store.exchange import GROUPS, SEED, Exchange, check_log
from rocketmq_store.sizes import INDEX_ENTRIES, INDEX_SLOTS
from rocketmq_store.theirs import rocketmq

from popmq_broker.core.store.index import HEADER_BYTES, Sizes, decode_entries, decode_header

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
    made = iter(_index_entries(directory))
    entries = _index_entries(source)
    lost = [entry for entry in entries if not any(entry == one for one in made)]
    if lost or not entries:
        raise Different(
            f"{len(lost)} of {len(entries)} index entries are not RocketMQ's: {lost[:9]}"
        )
    exchange.tell(f"{len(entries)} index entries: RocketMQ made the same, and others for tags")


def _index_entries(directory: Path) -> list[tuple[int, int]]:
    """Hash and log offset of all, in the order they were made.

    RocketMQ has more of them than we, for it indexes tags, too: so files end elsewhere.
    """
    found = []
    sizes = Sizes(slots=INDEX_SLOTS, entries=INDEX_ENTRIES)
    for path in sorted((directory / "index").iterdir()):
        data = path.read_bytes()
        count = decode_header(data[:HEADER_BYTES]).next_number
        entries = decode_entries(data[sizes.entry_at(1) : sizes.entry_at(count)])
        found += [(entry.key_hash, entry.log_offset) for entry in entries]
    return found


def _queues(directory: Path) -> dict[str, bytes]:
    """Contents of the queues' files, without the unused end."""
    root = directory / "consumequeue"
    return {
        str(path.relative_to(root)): path.read_bytes().rstrip(b"\0")
        for path in sorted(root.glob("*/*/*"))
    }
