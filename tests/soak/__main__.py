"""`python -m soak MINUTES [--lose]`: a cluster under load, killed again and again.

A nameserver, a broker and two proxies; three groups on a normal and a FIFO
topic. Every 20 s a proxy is killed with -9, every 60 s the broker. At each scrape of the broker's
metrics its counts must add up, and agree with what the clients know. At the end nothing may be
lost, nothing may come in a receive that began after its ack was answered OK, or out of order, and
the audit passes. With --lose, confirmed messages vanish from the broker's log while it is down for
the first time: then all that is asked is whether the audit finds it.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.closing_audit import audit
from harness.damaging import lose_end
from harness.processes import Server, cluster, free_port
from soak.ledger import Ledger, Sent, Told
from soak.samples import Samples
from soak.scrape import breaches, left, scrape
from soak.traffic import consume, produce

NORMAL, FIFO = "soak-normal", "soak-fifo"
BROKER = "broker-a"
TOPIC_OF = {"billing": NORMAL, "audit": NORMAL, "ordering": FIFO}
PRODUCERS = 4
CONSUMERS = 4
GAP_S = 0.04
PROXY_KILL_S = 20.0
BROKER_KILL_S = 60.0
SCRAPE_S = 2.0
DRAIN_S_MAX = 180.0
GROWTH_MAX = 1.25
DESCRIPTOR_GROWTH_MAX = 64
BREACHES_SHOWN_MAX = 20
LOST = 20
"""Messages of the normal topic: more than clients have under way, so that some were confirmed."""
LOST_DRAIN_S_MAX = 20.0
"""What was lost is never settled."""


@dataclass
class Soak:
    server: Server
    metrics_port: int
    rng: random.Random
    seconds: float
    ledger: Ledger
    lose: Path | None = None
    """The broker's directory, from which messages are to vanish."""
    samples: Samples = field(default_factory=Samples)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    breaches: list[str] = field(default_factory=list)
    scrapes: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    unsettled: int = -1
    _began: float = field(default_factory=time.monotonic)

    def endpoint(self) -> str:
        proxy = self.server.processes[self.rng.choice(["proxy-1", "proxy-2"])]
        return f"127.0.0.1:{proxy.port}"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for topic, sent in self.ledger.topics.items():
                for i in range(PRODUCERS):
                    work = produce(
                        topic, sent, f"{topic[5]}{i}", self.endpoint, self.rng, GAP_S,
                        self.stop, self.ledger,
                    )  # fmt: skip
                    tasks.create_task(work)
            for group, told in self.ledger.groups.items():
                for _ in range(CONSUMERS):
                    work = consume(
                        TOPIC_OF[group], group, told, self.endpoint, self.rng,
                        self.done, self.ledger,
                    )  # fmt: skip
                    tasks.create_task(work)
            watching = tasks.create_task(self._watch())
            await self._kill_until(self._began + self.seconds)
            self.stop.set()
            await self._drain()
            watching.cancel()
            self.done.set()

    async def _kill_until(self, deadline: float) -> None:
        broker_s, proxy_s = BROKER_KILL_S, PROXY_KILL_S
        turn = 0
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            passed_s = time.monotonic() - self._began
            if passed_s >= broker_s:
                broker_s += BROKER_KILL_S
                await self._kill(BROKER)
            if passed_s >= proxy_s:
                proxy_s += PROXY_KILL_S
                turn += 1
                await self._kill(f"proxy-{turn % 2 + 1}")

    async def _kill(self, name: str) -> None:
        process = self.server.processes[name]
        await asyncio.to_thread(process.kill_tree)
        if self.lose and name == BROKER and BROKER not in self.kills:
            await asyncio.to_thread(lose_end, self.lose, NORMAL, LOST)
        await asyncio.to_thread(process.start)
        self.kills[name] = self.kills.get(name, 0) + 1

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SCRAPE_S)
            at_s = time.monotonic() - self._began
            for name, process in self.server.processes.items():
                self.samples.take(name, process, at_s)
            await self._scrape()

    async def _scrape(self) -> None:
        groups = list(TOPIC_OF)
        stored = {group: self.ledger.stored(group) for group in groups}
        done = {group: self.ledger.done(group) for group in groups}
        try:
            rows = await asyncio.to_thread(scrape, self.metrics_port)
        except OSError:  # the broker is down
            return
        for group in groups:
            stored[group] = stored[group]._replace(most=self.ledger.stored(group).most)
            done[group] = done[group]._replace(most=self.ledger.done(group).most)
        self.scrapes += 1
        self.unsettled = left(rows)
        self.breaches += breaches(rows, TOPIC_OF, stored, done)

    async def _drain(self) -> None:
        self.unsettled = -1
        drain_s_max = LOST_DRAIN_S_MAX if self.lose else DRAIN_S_MAX
        for _ in range(int(drain_s_max / SCRAPE_S)):
            await asyncio.sleep(SCRAPE_S)
            if not self.unsettled:
                return

    def verdict(self) -> list[str]:
        wrong = list(self.breaches[:BREACHES_SHOWN_MAX])
        if self.unsettled:
            wrong.append(f"{self.unsettled} messages were never settled")
        for group, told in self.ledger.groups.items():
            for what, found in (
                ("lost", told.lost()),
                ("nobody sent", told.unexpected()),
                ("redelivered after an ack was answered OK", told.undone),
                ("out of order", told.out_of_order),
            ):
                print(f"{group}: {len(found)} {what}")
                if found:
                    wrong.append(f"{group}: {what}: {sorted(found)[:10]}")
        for name in self.samples.names:
            growth, more = self.samples.growth(name), self.samples.descriptor_growth(name)
            if growth > GROWTH_MAX or more > DESCRIPTOR_GROWTH_MAX:
                wrong.append(f"{name} grew to {growth:.2f} of its memory, {more} more descriptors")
        return wrong

    def report(self) -> None:
        print(self.samples.table())
        for topic, sent in self.ledger.topics.items():
            print(f"{topic}: {len(sent.ok)} of {len(sent.attempted)} sends answered OK")
        for group, told in self.ledger.groups.items():
            came = sum(told.received.values())
            print(f"{group}: {came} deliveries, {len(told.acked_at)} acked OK, {told.nacks} nacks")
        print(f"kills {self.kills}, {self.scrapes} scrapes, {len(self.breaches)} did not add up")
        print(f"{self.ledger.failed_calls} failed calls")


def _soak(folder: Path, seconds: float, seed: int, *, lose: bool) -> list[str]:
    metrics_port = free_port()
    env = {
        "POPMQ_PROXY_INVISIBLE_MS_MIN": "0",
        "POPMQ_BROKER_SEGMENT_BYTES": str(64 << 20),
        "POPMQ_BROKER_METRICS_PORT": str(metrics_port),
    }
    topics = {NORMAL: Sent(), FIFO: Sent()}
    groups = {group: Told(topics[topic], topic == FIFO) for group, topic in TOPIC_OF.items()}
    ledger, data_dir = Ledger(topics, groups), folder / BROKER
    with cluster(folder, env, brokers=1, proxies=2) as server:
        server.cli("topic", "create", NORMAL, "--queues", "4")
        server.cli("topic", "create", FIFO, "--type", "fifo", "--queues", "4")
        for group, topic in TOPIC_OF.items():
            fifo = ["--fifo"] if topic == FIFO else []
            server.cli("group", "create", group, "--from", "first", "--max-attempts", "1000", *fifo)
        rng = random.Random(seed)
        soak = Soak(server, metrics_port, rng, seconds, ledger, data_dir if lose else None)
        asyncio.run(soak.run())
    soak.report()
    audited = audit([data_dir], folder / "audits")
    print(f"the audit ended with {audited.code}, and found {dict(audited.found)}")
    if lose:
        return audited.overlooked(NORMAL)
    return soak.verdict() + audited.not_passed()


def main() -> None:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=10.0)
    parser.add_argument("--lose", action="store_true", help="messages vanish; is it found?")
    asked = parser.parse_args()
    if asked.lose and asked.minutes * 60 <= BROKER_KILL_S:
        parser.error(f"the broker is killed after {BROKER_KILL_S:.0f} s")
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"{asked.minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wrong = _soak(Path(folder), asked.minutes * 60, seed, lose=asked.lose)
    for line in wrong:
        print(f"WRONG {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
