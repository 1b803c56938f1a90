"""The part of `Client.admin` that looks at messages and settles what was left: dead letters, stored
messages, transactions, brokers."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, Literal

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core import message_inspection
from popmq._core import topology as core
from popmq._core.message_inspection import (
    Explained,
    FoundMessages,
    OpenTransaction,
    Place,
    StoredMessage,
)
from popmq._core.topology import DeadLetter, Purged, Redriven
from popmq.admin.admin_calls import AdminCalls
from popmq_admin.v1 import admin_pb2 as admin

SEARCH_S: Final = 20.0
"""A broker may have to bring its index up to date first."""
EXPLAIN_S: Final = 30.0
"""And then it reads its journal."""


class Operations(AdminCalls):
    async def dead_letters(
        self, group: str, *, reason: str = "", topic: str = "", message_id: str = ""
    ) -> AsyncIterator[DeadLetter]:
        """Those that match, broker by broker, oldest first. `reason`: a part of it; `topic`: that
        they were sent to."""
        wanted = self._wanted(reason, topic, message_id)
        group = self._stored(group)
        request = admin.ListDeadLettersRequest(group=group, filter=wanted, whole=True)
        while True:
            response = await self._ask("ListDeadLetters", request, v2.CONSUMER_GROUP_NOT_FOUND)
            for letter in response.letters:
                yield core.dead_letter_of(letter, self._prefix)
            if not response.cursor:
                return
            request.cursor = response.cursor

    async def redrive_dead_letters(
        self,
        group: str,
        *,
        reason: str = "",
        topic: str = "",
        message_id: str = "",
        to_topic: bool = False,
        dry_run: bool = False,
    ) -> Redriven:
        """Send those that match again, each once, however often this is called: to the group alone,
        or with `to_topic` to their topics, where every group gets them. `dry_run`: nothing is sent;
        the answer tells what would be."""
        which = admin.RedriveDeadLettersRequest(
            group=self._stored(group), filter=self._wanted(reason, topic, message_id)
        )
        sent = already = without_topic = in_order = 0
        while True:
            request = admin.RedriveRequest(which=which, to_topic=to_topic, dry_run=dry_run)
            response = await self._ask("Redrive", request, v2.CONSUMER_GROUP_NOT_FOUND)
            sent += response.sent
            already += response.already
            without_topic += response.without_topic
            in_order += response.in_order
            if not response.cursor:
                return Redriven(
                    sent=sent, already=already, without_topic=without_topic, in_order=in_order
                )
            which.cursor = response.cursor

    async def purge_dead_letters(
        self, group: str, *, before: datetime | None, dry_run: bool = False
    ) -> Purged:
        """Delete those that became dead letters before; None: all there are now. They are no longer
        listed and cannot be sent again. `dry_run`: only count them."""
        request = admin.PurgeDeadLettersRequest(
            group=self._stored(group), before_ms=message_inspection.ms_of(before), dry_run=dry_run
        )
        response = await self._ask("PurgeDeadLetters", request, v2.CONSUMER_GROUP_NOT_FOUND)
        return core.purged_of(response)

    def _wanted(self, reason: str, topic: str, message_id: str) -> admin.DeadLetterFilter:
        stored = self._stored(topic) if topic else ""
        return admin.DeadLetterFilter(reason=reason, topic=stored, message_id=message_id)

    async def find_messages(
        self,
        topic: str,
        key: str,
        *,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 32,
    ) -> FoundMessages:
        """Stored messages with this key or message id, newest first. `after`, `before`: when they
        were stored. `limit`: at most 64."""
        request = admin.FindMessagesRequest(
            topic=self._stored(topic),
            key=key,
            count_max=limit,
            from_ms=message_inspection.ms_of(after),
            until_ms=message_inspection.ms_of(before),
        )
        response = await self._ask("FindMessages", request, v2.TOPIC_NOT_FOUND, SEARCH_S)
        messages = [message_inspection.message_of(one, self._prefix) for one in response.messages]
        return FoundMessages(messages=messages, incomplete=response.incomplete)

    async def get_message(self, topic: str, which: str | Place) -> StoredMessage | None:
        """By its message id, or from its place; None: it is not there. Of several with one id the
        newest."""
        if isinstance(which, Place):
            place = admin.GetMessageRequest(
                topic=self._stored(topic),
                broker=which.broker,
                queue_id=which.queue_id,
                offset=which.offset,
            )
            response = await self._ask("GetMessage", place, v2.TOPIC_NOT_FOUND)
        else:
            by_id = admin.FindMessagesRequest(
                topic=self._stored(topic), key=which, id_only=True, count_max=1, whole=True
            )
            response = await self._ask("FindMessages", by_id, v2.TOPIC_NOT_FOUND, SEARCH_S)
        for found in response.messages:
            return message_inspection.message_of(found, self._prefix)
        return None

    async def explain(self, message_id: str, *, topic: str = "", group: str = "") -> Explained:
        """What happened to a message, and for each group why it is or is not received. `topic`: the
        search is shorter; `group`: that one alone, even if it has never received."""
        request = admin.ExplainRequest(
            message_id=message_id,
            topic=self._stored(topic) if topic else "",
            group=self._stored(group) if group else "",
        )
        response = await self._ask("Explain", request, v2.MESSAGE_NOT_FOUND, EXPLAIN_S)
        return message_inspection.explained_of(response, self._prefix)

    async def open_transactions(
        self, topic: str = "", *, limit: int = 100
    ) -> list[OpenTransaction]:
        """Those that nobody has settled, oldest first. `topic`: of that one alone; `limit`: of each
        broker, at most 1,000."""
        request = admin.ListTransactionsRequest(
            topic=self._stored(topic) if topic else "", count_max=limit
        )
        response = await self._ask("ListTransactions", request, v2.TOPIC_NOT_FOUND)
        return [
            message_inspection.transaction_of(one, self._prefix)
            for one in response.transactions
            if one.topic.startswith(self._prefix)
        ]

    async def settle_transaction(self, transaction_id: str, *, commit: bool) -> None:
        """Instead of its producer: its message is delivered, or else dropped. The same again is
        good; the opposite is refused."""
        request = admin.SettleTransactionRequest(transaction_id=transaction_id, commit=commit)
        await self._ask("SettleTransaction", request, v2.INVALID_TRANSACTION_ID)

    async def set_permission(self, broker: str, allowed: Literal["read", "read-write"]) -> None:
        """What clients may do at a broker. `read` empties it before it is removed: new messages go
        to other brokers."""
        request = admin.SetPermissionRequest(broker=broker, permission=allowed)
        await self._ask("SetPermission", request, v2.NOT_FOUND)
