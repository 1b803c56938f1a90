"""One consumer process of the torture: takes from the real broker, and dies when its plan says so.

It appends one line per event to its book with a single write, which outlives the process:
`d` a delivery, `i` a death between effect and mark, `x` another one, `s` a duplicate
suppressed, `t` turned away."""

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass

from idempotence.death import Died, Fate, MortalRedis
from idempotence.ledger import connect
from idempotence.plan import Action, actions_of
from idempotence.strategies import BY_NAME, Stores, Strategy

from popmq import Client, InvalidReceiptHandle, ReceivedMessage
from popmq.idempotence import Fenced
from popmq.outcome import Retry

TOPIC = "torture"
HELD = 8  # messages at a time
INVISIBLE_S = 3.0
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """What a process needs to know."""

    endpoint: str
    group: str
    sql: str
    redis: str
    strategy: tuple[str, str]
    run: str
    book: str


class Worker:
    def __init__(self, client: Client, strategy: Strategy, book: int) -> None:
        self.client, self.strategy, self._book = client, strategy, book

    def note(self, event: str) -> None:
        os.write(self._book, f"{event}\n".encode())

    async def serve(self, group: str) -> None:
        """Until it is killed."""
        while True:
            held = await self.client.receive(
                group, group, max_messages=HELD, invisible_s=INVISIBLE_S, wait_s=1
            )
            async with asyncio.TaskGroup() as tasks:
                for message in held:
                    tasks.create_task(self.deliver(message))

    async def deliver(self, message: ReceivedMessage) -> None:
        actions, killed = actions_of(message)
        attempt = message.delivery_attempt
        action = actions[attempt - 1] if attempt <= len(actions) else Action.CLEAN
        self.note("d")
        given_back = action in (Action.OVERLAP, Action.SLOW)
        with suppress(InvalidReceiptHandle):  # its time was over: somebody else has it
            if given_back:
                await self.client.nack(message, delay_s=0)
            if not await self.handled(message, action, killed=killed) or given_back:
                return
            if action is Action.CLEAN:
                await self.client.ack(message)
            else:
                await self.client.nack(message, delay_s=0)

    async def handled(self, message: ReceivedMessage, action: Action, *, killed: bool) -> bool:
        """False: it was turned away, and given back."""
        death = "i" if action is Action.DIES_INSIDE else "x"
        pause_s = self.strategy.pause_s
        fate = Fate(action, pause_s=pause_s, killed=killed, dying=lambda: self.note(death))
        try:
            if not await self.strategy.handle(message, fate):
                self.note("s")
            await fate.after()
        except (Retry, Fenced):
            self.note("t")
            if action not in (Action.OVERLAP, Action.SLOW):
                await self.client.nack(message, delay_s=RETRY_S, counted=False)
            return False
        except Died:
            if not self.strategy.survives:
                self.strategy.make()
        return True


async def _serve(job: Job) -> None:
    logging.disable(logging.WARNING)
    engine, redis = connect(job.sql), MortalRedis.from_url(job.redis)
    strategy = BY_NAME[job.strategy](Stores(engine, redis), job.run)
    book = os.open(job.book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with Client(job.endpoint, request_timeout_s=10) as client:
        await Worker(client, strategy, book).serve(job.group)


def work(job: Job) -> None:
    """The whole of a process."""
    asyncio.run(_serve(job))
