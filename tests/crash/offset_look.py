"""Looks at offsets: those that the broker tells, and those in its file when it is dead."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from crash.offset_book import GROUPS, Book, Tail
from crash.offset_consumers import PAUSE_S, TOPIC
from harness.queue_reader import QueueReader

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import Client, PopMQClientError
from popmq.errors import check
from popmq_broker.core.groups import offsets

T = TypeVar("T")
BROKER, QUEUES = "broker-a", 4
ANSWER_S = 60.0
"""Within this a broker that was started is found again."""


class Look:
    def __init__(self, client: Client, book: Book, records: list[Path], folder: Path) -> None:
        self._client, self.book = client, book
        self.told: dict[tuple[str, int], int] = {}
        """The broker's last answers, by group and queue."""
        self.in_file: dict[tuple[str, int], int] = {}
        self._reader = QueueReader(client, TOPIC, BROKER, QUEUES)
        self._tails = [Tail(path) for path in records]
        self._file = folder / "config" / "consumerOffset.json"

    async def at_broker(self) -> list[str]:
        """What it answers, held to what it had answered before it was asked."""
        book, places = self.book, [(group, i) for group in GROUPS for i in range(QUEUES)]
        self.read_records()
        lowest = {place: book.lowest(*place) for place in places}
        self.told = {
            place: await _until_answered(partial(self._offset, *place)) for place in places
        }
        for queue_id in range(QUEUES):
            await _until_answered(partial(self._reader.catch_up, queue_id))
            book.placed[queue_id] = [one.body for one in self._reader.placed[queue_id]]
        self.read_records()
        wrong = []
        for (group, queue_id), offset in self.told.items():
            low = lowest[group, queue_id]
            wrong += book.seen("the broker", group, queue_id, offset, low)
        return wrong

    def read_file(self) -> None:
        """Of a broker that is dead."""
        if not self._file.exists():
            return
        table = offsets.decode(self._file.read_text(), where=str(self._file))
        for key, offset in table.offsets.items():
            if key.topic == TOPIC and key.group in GROUPS:
                self.in_file[key.group, key.queue_id] = offset

    def at_file(self) -> list[str]:
        """What was read of it, held to the queues as they are now, while consumers stand still.
        It may lag behind, for the journal completes it; but not behind what it said before."""
        wrong = []
        for (group, queue_id), offset in self.in_file.items():
            wrong += self.book.seen("the file", group, queue_id, offset, 0)
        return wrong

    def at_end(self, group: str, queue_id: int) -> bool:
        return self.told[group, queue_id] == len(self.book.placed[queue_id])

    def read_records(self) -> None:
        for tail in self._tails:
            for line in tail.lines():
                self.book.note(line)

    async def _offset(self, group: str, queue_id: int) -> int:
        connection = self._client.connection
        request = service.GetOffsetRequest(
            group=connection.resource(group), message_queue=self._reader.queue(queue_id)
        )
        response = await connection.ask(connection.stub.GetOffset, request)
        if response.status.code == v2.OFFSET_NOT_FOUND:
            return 0
        check(response.status)
        return int(response.offset)


async def _until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return await ask()
        except PopMQClientError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(PAUSE_S)
