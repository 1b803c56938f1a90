"""Broadcast: every consumer gets every message of the topic.

async with BroadcastConsumer("127.0.0.1:8081", "prices", "shop-7") as consumer:
    await consumer.run(handle)

Offsets are kept in a file of this consumer, so its group name is its own business. A message that
the handler fails on is logged and skipped: there is no retry and no dead letter.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.observer import observed
from popmq.pull.offset_store import Start
from popmq.pull.pull import PullConsumer

log = logging.getLogger(__name__)
FOLDER = Path.home() / ".rocketmq_offsets"
"""Where RocketMQ's clients keep theirs."""


class BroadcastConsumer:
    """Use it as an async context manager."""

    def __init__(
        self,
        endpoint: str,
        topic: str,
        group: str,
        *,
        name: str = "default",
        folder: Path = FOLDER,
        filter: str = "*",
        sql: str = "",
        start: Start | datetime = Start.LAST,
        **options: object,
    ) -> None:
        """`name`: of this consumer, the same at each start; its offsets are in
        FOLDER/NAME/GROUP/offsets.json. `start`: where it begins at its very first start."""
        self.failed = 0
        """Messages that the handler failed on."""
        self._pull = PullConsumer(
            endpoint,
            topic,
            group,
            filter=filter,
            sql=sql,
            queues="all",
            offsets_file=folder / name / group / "offsets.json",
            start=start,
            **options,  # type: ignore[arg-type]
        )

    async def __aenter__(self) -> Self:
        await self._pull.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._pull.__aexit__(*raised)

    async def run(self, handle: Callable[[ReceivedMessage], Awaitable[None]]) -> None:
        """Hand over message after message, until cancelled."""
        while True:
            await self.step(handle)

    async def step(
        self, handle: Callable[[ReceivedMessage], Awaitable[None]], wait_s: float = 5.0
    ) -> int:
        """One batch of one queue; how many messages it had."""
        messages = await self._pull.poll(wait_s=wait_s)
        for message in messages:
            try:
                await observed(self._pull.observer, (message,), partial(handle, message))()
            except Exception as failed:
                self.failed += 1
                place, more = (message.message_id, message.queue_offset), fields(message, failed)
                log.exception("skipped %s, offset %s", *place, extra=more)
            self._pull.done(message)
        return len(messages)
