"""No message is in flight twice: not when receives that wait at several brokers are cancelled, and
not when a proxy dies with what it had taken. The clock stands still, so no lease ends meanwhile."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from harness.anywhere import INVISIBLE_S, NAMES, Cluster, receive_messages
from harness.names import TOPIC
from harness.proxy import ProxyDriver

from apache.rocketmq.v2 import definition_pb2 as v2

MESSAGES = 80
RECEIVERS = 12


class Chances:
    """Receives through two proxies, one of which dies."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.rng = cluster, random.Random(seed)
        self._cut_off: set[str] = set()
        self.proxies = [cluster.proxy, cluster.another_proxy(self._cut_off)]
        self.got: list[v2.Message] = []
        self._receiving: set[asyncio.Task[None]] = set()
        self.cancelled = 0

    async def run(self) -> None:
        receivers = [asyncio.create_task(self._receive(i)) for i in range(RECEIVERS)]
        for number in range(MESSAGES):
            await self.cluster.send(self.rng.randrange(len(self.cluster.engines)), f"{number}")
            await self._turns()
            if self.rng.random() < 0.3:
                self._cancel_one()
            if number == MESSAGES // 2:
                self._kill()
        for _ in range(200):
            await asyncio.sleep(0)
        await self._end(receivers)

    async def _turns(self) -> None:
        for _ in range(self.rng.randrange(12)):
            await asyncio.sleep(0)

    async def _receive(self, number: int) -> None:
        """One after the other, each in a task of its own, which may be cancelled."""
        while True:
            proxy = self.proxies[number % len(self.proxies)]
            task = asyncio.create_task(self._receive_once(proxy))
            self._receiving.add(task)
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                task.cancel()
                raise
            finally:
                self._receiving.discard(task)

    async def _receive_once(self, proxy: ProxyDriver) -> None:
        broker, count = self.rng.randrange(len(self.cluster.engines)), self.rng.randint(1, 4)
        self.got += await receive_messages(proxy, broker, batch_size=count)

    def _cancel_one(self) -> None:
        waiting = sorted(self._receiving, key=lambda task: task.get_name())
        if waiting:
            self.cancelled += self.rng.choice(waiting).cancel()

    def _kill(self) -> None:
        """Nothing that it has taken is given back by it."""
        self._cut_off.update(NAMES)
        del self.proxies[1]
        for task in self._receiving:
            task.cancel()

    async def _end(self, receivers: "list[asyncio.Task[None]]") -> None:
        for task in [*receivers, *self._receiving]:
            task.cancel()
        await asyncio.gather(*receivers, *self._receiving, return_exceptions=True)


def bodies(messages: list[v2.Message]) -> "Counter[str]":
    return Counter(message.body.decode() for message in messages)


@pytest.mark.parametrize("brokers", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_received_is_held_once(tmp_path: Path, brokers: int, seed: int) -> None:
    """What was lost with a receive is redelivered, what was received does not."""
    cluster = Cluster(tmp_path, brokers)
    chances = Chances(cluster, seed)
    cluster.run(chances.run)
    got = chances.got
    assert chances.cancelled
    assert set(bodies(got).values()) == {1}, "the same message was given to two receives"
    if got:
        cluster.proxy.ack(*got)
    for engine in cluster.engines:
        engine.advance(0)
    cluster.engines[0].clock.advance(INVISIBLE_S * 1000 + 1)
    for engine in cluster.engines:
        engine.advance(0)
    for name in NAMES[:brokers]:
        place = v2.MessageQueue(topic=v2.Resource(name=TOPIC), broker=v2.Broker(name=name))
        while more := cluster.proxy.receive(INVISIBLE_S, message_queue=place):
            got = got + more
    assert bodies(got) == Counter(f"{number}" for number in range(MESSAGES))
    cluster.close()
