"""Retry by copies, for topics whose server has no retry: the consumer sends what failed again.

    topic ──fails──► copy in the retry topic, counted ──fails──► … ──last time──► dead topic

The retry topic may serve many groups: each copy names the group that failed, and others pass it
over (`sql` lets the broker do that). It is the way Kafka's users retry. Between the copy and the
done of the original a crash leaves both: the handler must bear a message twice.

retry = CopyRetry(client, "billing", retry_topic="retries", dead_topic="failures")
async with PullConsumer(endpoint, "retries", "billing", sql=retry.sql) as consumer:
    for message in await consumer.poll():
        await retry.handle(message, handler)
        consumer.done(message)
"""

import logging
from collections.abc import Awaitable, Callable

from popmq.client import Client
from popmq.log_fields import fields
from popmq.message import ReceivedMessage

COUNT, GROUP, ORIGIN, REASON = (
    "COPY_RETRY_COUNT",
    "COPY_RETRY_GROUP",
    "COPY_RETRY_ORIGIN",
    "COPY_RETRY_REASON",
)
"""Properties of a copy: attempts so far, whose it is, the first topic, the last failure."""
REASON_CHARS_MAX = 1_000
log = logging.getLogger(__name__)


class CopyRetry:
    def __init__(
        self,
        client: Client,
        group: str,
        *,
        retry_topic: str,
        dead_topic: str,
        max_attempts: int = 4,
    ) -> None:
        """`max_attempts`: the first one included."""
        self._client, self._group = client, group
        self._retry_topic, self._dead_topic = retry_topic, dead_topic
        self._max_attempts = max_attempts

    @property
    def sql(self) -> str:
        """Originals, and the copies of this group."""
        return f"{GROUP} IS NULL OR {GROUP} = '{self._group}'"

    def wants(self, message: ReceivedMessage) -> bool:
        """False: the copy of another group."""
        return message.properties.get(GROUP, self._group) == self._group

    def attempt(self, message: ReceivedMessage) -> int:
        """1 for the original."""
        return int(message.properties.get(COUNT, "0")) + 1

    async def handle(
        self,
        message: ReceivedMessage,
        handler: Callable[[ReceivedMessage], Awaitable[None]],
    ) -> None:
        """Afterwards the message is done with: handled, copied, or not this group's."""
        if not self.wants(message):
            return
        try:
            await handler(message)
        except Exception as failed:
            await self.failed(message, f"{type(failed).__name__}: {failed}")

    async def failed(self, message: ReceivedMessage, reason: str) -> None:
        """Send the copy. Raises the errors of `popmq.errors`; then the message is not done."""
        attempt = self.attempt(message)
        dead = attempt >= self._max_attempts
        topic = self._dead_topic if dead else self._retry_topic
        more = fields(message, reason) | {"attempt": attempt}
        log.warning("attempt %d of %s failed: %s", attempt, message.message_id, reason, extra=more)
        await self._client.send(
            topic,
            message.body,
            tag=message.tag,
            keys=message.keys,
            properties={
                **message.properties,
                COUNT: str(attempt),
                GROUP: self._group,
                ORIGIN: message.properties.get(ORIGIN, message.topic),
                REASON: " ".join(reason.split())[:REASON_CHARS_MAX],
            },
        )
