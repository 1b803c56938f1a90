"""Producers are asked what has become of transactions that nobody settled.

About once a second each broker is asked which half messages are due, of the topics that producers
connected here publish to. A broker gives each to one proxy once per interval, and here it goes to
one producer, another one each time. What cannot be put into a stream at once is let go: the broker
has it asked again an interval later. Nothing is kept.
"""

import asyncio
import random

from popmq_common.errors import PopMQError
from popmq_common.records.transaction_id import TransactionId, encode
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.orphan import recover_command
from popmq_proxy.rpc.shared.context import Upstream

TOPICS_MAX = 1_024  # of one call, the broker's bound
CHECKS_MAX = 256
"""Of one call."""


class TransactionChecksHandler:
    def __init__(self, upstream: Upstream, chance: random.Random | None = None) -> None:
        self._upstream = upstream
        self._chance = chance or random.Random()
        self._silent: set[str] = set()
        """Brokers that did not answer the last time; as many as are registered."""

    async def run(self) -> None:
        """For ever. The pauses are random, so that no proxy is always ahead of another."""
        while True:
            pause_s = self._upstream.config.transaction_poll_ms / 1000
            await asyncio.sleep(pause_s * (0.5 + self._chance.random()))
            await self.ask_once()

    async def ask_once(self) -> None:
        """Every broker, once; one that does not answer is asked again the next time."""
        topics = self._upstream.producers.topics()
        if not topics:
            return
        try:
            brokers = [info.name for info in await self._upstream.routes.brokers()]
        except PopMQError:  # the heartbeats log it
            return
        self._silent &= set(brokers)
        await asyncio.gather(*(self._ask_broker(broker, topics) for broker in brokers))

    async def _ask_broker(self, broker: str, topics: list[str]) -> None:
        try:
            for i in range(0, len(topics), TOPICS_MAX):
                poll = link.PollChecks(topics=topics[i : i + TOPICS_MAX], count_max=CHECKS_MAX)
                reply = await self._upstream.call(broker, link.Call(poll_checks=poll))
                for half in reply.poll_checks.checks:
                    self._ask_producer(broker, half)
            self._silent.discard(broker)
        except PopMQError as failed:
            if broker not in self._silent:  # a line per change of state
                self._upstream.log.warning("checks.unasked", broker=broker, reason=str(failed))
            self._silent.add(broker)

    def _ask_producer(self, broker: str, half: link.HalfMessage) -> None:
        producers = self._upstream.producers
        stream = producers.next(half.topic)
        if stream is None:
            return
        name = encode(TransactionId(broker, half.half_offset, half.log_offset))
        topic = producers.name_of(half.topic, stream)
        producers.put(stream, recover_command(topic, half.record, name))
