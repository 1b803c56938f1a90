"""`popmq.admin.admin` without asyncio: `popmq.sync.SyncClient.admin`."""

from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar, Unpack

from popmq._core.message_inspection import (
    Explained,
    FoundMessages,
    OpenTransaction,
    Place,
    StoredMessage,
)
from popmq._core.topology import (
    DeadLetter,
    Group,
    GroupOptions,
    GroupQueue,
    Purged,
    Redriven,
    StartAt,
    Topic,
    TopicOptions,
    TopicQueue,
)
from popmq.admin.admin import Admin

R = TypeVar("R")


class Calls(Protocol):
    def call(self, work: Coroutine[Any, Any, R]) -> R: ...


class SyncAdmin:
    """See `popmq.admin.admin.Admin`."""

    def __init__(self, loop: Calls, made: Admin) -> None:
        self._loop, self._made = loop, made

    def create_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        self._loop.call(self._made.create_topic(name, **options))

    def ensure_topic(self, name: str, **options: Unpack[TopicOptions]) -> bool:
        return self._loop.call(self._made.ensure_topic(name, **options))

    def find_topic(self, name: str) -> Topic | None:
        return self._loop.call(self._made.find_topic(name))

    def delete_topic(self, name: str) -> None:
        self._loop.call(self._made.delete_topic(name))

    def list_topics(self) -> list[Topic]:
        return self._loop.call(self._made.list_topics())

    def describe_topic(self, name: str) -> tuple[Topic, list[TopicQueue]]:
        return self._loop.call(self._made.describe_topic(name))

    def spread_topics(self, name: str = "") -> dict[str, list[str]]:
        return self._loop.call(self._made.spread_topics(name))

    def create_group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        self._loop.call(self._made.create_group(name, **options))

    def ensure_group(self, name: str, **options: Unpack[GroupOptions]) -> bool:
        return self._loop.call(self._made.ensure_group(name, **options))

    def find_group(self, name: str) -> Group | None:
        return self._loop.call(self._made.find_group(name))

    def delete_group(self, name: str) -> None:
        self._loop.call(self._made.delete_group(name))

    def list_groups(self) -> list[Group]:
        return self._loop.call(self._made.list_groups())

    def describe_group(self, name: str) -> tuple[Group, list[GroupQueue]]:
        return self._loop.call(self._made.describe_group(name))

    def reset_group(self, name: str, topic: str, to: StartAt) -> None:
        self._loop.call(self._made.reset_group(name, topic, to))

    def dead_letters(
        self, group: str, *, reason: str = "", topic: str = "", message_id: str = ""
    ) -> list[DeadLetter]:
        async def listed() -> list[DeadLetter]:
            wanted = {"reason": reason, "topic": topic, "message_id": message_id}
            return [one async for one in self._made.dead_letters(group, **wanted)]

        return self._loop.call(listed())

    def redrive_dead_letters(
        self,
        group: str,
        *,
        reason: str = "",
        topic: str = "",
        message_id: str = "",
        to_topic: bool = False,
        dry_run: bool = False,
    ) -> Redriven:
        wanted = {"reason": reason, "topic": topic, "message_id": message_id}
        work = self._made.redrive_dead_letters(group, to_topic=to_topic, dry_run=dry_run, **wanted)
        return self._loop.call(work)

    def purge_dead_letters(
        self, group: str, *, before: datetime | None, dry_run: bool = False
    ) -> Purged:
        work = self._made.purge_dead_letters(group, before=before, dry_run=dry_run)
        return self._loop.call(work)

    def find_messages(
        self,
        topic: str,
        key: str,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 32,
    ) -> FoundMessages:
        work = self._made.find_messages(topic, key, after=after, before=before, limit=limit)
        return self._loop.call(work)

    def get_message(self, topic: str, which: str | Place) -> StoredMessage | None:
        return self._loop.call(self._made.get_message(topic, which))

    def explain(self, message_id: str, *, topic: str = "", group: str = "") -> Explained:
        return self._loop.call(self._made.explain(message_id, topic=topic, group=group))

    def open_transactions(self, topic: str = "", *, limit: int = 100) -> list[OpenTransaction]:
        return self._loop.call(self._made.open_transactions(topic, limit=limit))

    def settle_transaction(self, transaction_id: str, *, commit: bool) -> None:
        self._loop.call(self._made.settle_transaction(transaction_id, commit=commit))

    def set_permission(self, broker: str, allowed: Literal["read", "read-write"]) -> None:
        self._loop.call(self._made.set_permission(broker, allowed))
