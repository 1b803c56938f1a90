"""One fault after the other under load, then everything is drained, judged and audited."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from harness.closing_audit import ClosingAudit, audit

from chaos import events
from chaos.cluster import KINDS, Chaos, chaos_cluster, loaded, topics
from chaos.events import Event
from chaos.faults import Fault
from chaos.judge import Row, Window, judge
from chaos.load import INVISIBLE_S
from popmq import PullConsumer, Start
from popmq_admin.v1 import admin_pb2 as admin

WARM_S = 5.0
SETTLE_S = 6.0
"""After each fault; a disturbance behind it still is the fault's."""
HEAL_S_MAX = 40.0
DRAIN_S_MAX = 120.0
READ_S_MAX = 120.0
"""A topic, to count how often its messages are stored."""
QUIET_S = INVISIBLE_S + 4.0
"""So long nothing may come when all has come: a lease that was not ended would be over."""


def campaign(
    folder: Path, faults: Sequence[Fault], python: Path, go: Path
) -> tuple[list[Row], ClosingAudit]:
    with chaos_cluster(folder) as chaos:
        with loaded(chaos, python, go):
            _until_all_work(chaos, time.time())
            time.sleep(WARM_S)
            windows = [_strike(chaos, fault) for fault in faults]
            for load in chaos.loads:
                load.drain()
            _until_drained(chaos)
        found = _events(chaos)
        rows = judge(found, windows, _Copies(chaos).of)
        for broker in chaos.data_dirs:
            chaos.stop(broker)
        return rows, audit(list(chaos.data_dirs.values()), folder / "audits")


def _strike(chaos: Chaos, fault: Fault) -> Window:
    began_s = time.time()
    print(f"{time.strftime('%H:%M:%S')} {fault.title}", flush=True)
    fault.run(chaos)
    healed_s = time.time()
    _until_all_work(chaos, healed_s)
    time.sleep(SETTLE_S)
    for load in chaos.loads:
        load.check()
    return Window(fault.name, fault.title, began_s, healed_s, time.time())


def _events(chaos: Chaos) -> list[Event]:
    return [event for load in chaos.loads for event in events.read(load.kind, load.events)]


def _until_all_work(chaos: Chaos, since_s: float) -> None:
    """Each kind has sent and received after that time. A failure of it is found by the judge."""
    deadline = time.monotonic() + HEAL_S_MAX
    wanted = {(kind, what) for kind in KINDS for what in ("send", "receive")}
    while time.monotonic() < deadline:
        works = {
            (event.kind, event.what)
            for event in _events(chaos)
            if event.began_s > since_s and not event.error
        }
        if wanted <= works:
            return
        time.sleep(1.0)
    print(f"  after {HEAL_S_MAX:.0f} s still not: {sorted(wanted - works)}", flush=True)


def _until_drained(chaos: Chaos) -> None:
    """Everything has come, and nothing has come for long. An ack whose answer was lost may have
    been done: nobody waits for acks."""
    deadline = time.monotonic() + DRAIN_S_MAX
    while time.monotonic() < deadline:
        found = _events(chaos)
        sent = {event.body for event in found if event.what == "send" and not event.error}
        came = [event for event in found if event.what == "receive" and not event.error]
        quiet_s = time.time() - max((event.ended_s for event in came), default=0.0)
        if sent <= {event.body for event in came} and quiet_s > QUIET_S:
            return
        time.sleep(1.0)


class _Copies:
    """How often messages are stored: read from the topics' queues, when somebody asks."""

    def __init__(self, chaos: Chaos) -> None:
        self._chaos = chaos
        self._counts: dict[str, Counter[str]] = {}

    def of(self, body: str) -> int:
        kind = body.partition("/")[0]
        if kind not in self._counts:
            self._counts[kind] = asyncio.run(self._count(kind))
        return self._counts[kind][body]

    async def _count(self, kind: str) -> Counter[str]:
        """Raises `TimeoutError`: what is not read yet would be held for a repetition."""
        found: Counter[str] = Counter()
        for topic in topics(kind):
            left = self._stored(topic)
            reader = PullConsumer(
                self._chaos.endpoints, topic, "chaos-reader", queues="all", start=Start.FIRST
            )
            async with reader, asyncio.timeout(READ_S_MAX):
                while left > 0:
                    messages = await reader.poll(wait_s=3.0)
                    found.update(message.body.decode() for message in messages)
                    left -= len(messages)
        return found

    def _stored(self, topic: str) -> int:
        request = admin.DescribeTopicRequest(name=topic)
        queues = self._chaos.ask("DescribeTopic", request).queues
        return sum(queue.max_offset - queue.min_offset for queue in queues)
