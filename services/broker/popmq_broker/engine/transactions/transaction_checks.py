"""Half messages that nobody settles: asked about, moved out of retention's way, given up.

Proxies poll for what their producers should be asked; what one gets is asked by nobody else for an
interval, however many proxies and producers there are. How often each was asked is written to
transactionChecks.json now and then: a restart goes on where it was, a crash may ask once more.

    {"ORIGIN QUEUE OFFSET@ORIGIN LOG OFFSET": [checks, due ms]}

Source: RocketMQ TransactionalMessageServiceImpl.check. Differs: RocketMQ writes a half message
again at each check and asks one producer that is connected to the broker; an interval without any
counts there. Here it is written again when it is old and lies in an older file than the newest.
"""

import asyncio
import json

from popmq_broker.core.transactions.transaction import Half
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.transactions.transaction import Transactions
from popmq_common.errors import BadRequest, Corrupt, DiskFull
from popmq_internal.v1 import link_pb2 as link

CHECKS_FILE = "transactionChecks.json"
TURN_S = 1.0
SAVE_TURNS = 5
MOVES_MAX = 256
"""Of one turn, before other work gets its own."""
TOPICS_MAX = 1_024
COUNT_MAX = 1_024
BYTES_MAX = 8 << 20
"""Records of one answer; the first always fits."""


class TransactionChecks:
    def __init__(self, runtime: Runtime, halves: HalfTable, transactions: Transactions) -> None:
        self._runtime = runtime
        self._halves = halves
        self._transactions = transactions
        self._saved = halves.changed
        self._tended_ms = runtime.clock.now_ms()

    async def poll(self, request: link.PollChecks) -> link.PollChecksReply:
        """What is to be asked now, of these topics. Raises `BadRequest`."""
        if len(request.topics) > TOPICS_MAX or not 1 <= request.count_max <= COUNT_MAX:
            raise BadRequest(
                reason=f"{len(request.topics)} topics, {request.count_max} half messages; "
                f"at most {TOPICS_MAX} and {COUNT_MAX} are allowed"
            )
        runtime = self._runtime
        reply = link.PollChecksReply()
        now_ms, room_bytes = runtime.clock.now_ms(), BYTES_MAX
        while len(reply.checks) < request.count_max and room_bytes > 0:
            due = self._halves.take_due(request.topics, now_ms, 1, runtime.store.durable_end)
            if not due:
                break
            record = self._bytes(due[0])
            if record is not None:
                reply.checks.append(_message(due[0], record))
                runtime.stats.checked[due[0].topic] += 1
                room_bytes -= len(record)
        return reply

    def _bytes(self, half: Half) -> bytes | None:
        """None: retention has deleted it, or it is damaged, which must not hold up the others."""
        try:
            return self._runtime.store.read_bytes(half.log_offset, half.size_bytes)
        except Corrupt as damaged:
            self._runtime.log.error("transaction.damaged", topic=half.topic, reason=str(damaged))
            return None

    async def run(self) -> None:
        """For ever."""
        turn = 0
        while True:
            await asyncio.sleep(TURN_S)
            turn += 1
            await self.tend()
            if turn % SAVE_TURNS == 0:
                await self.save()

    async def tend(self) -> None:
        """Give up what is hopeless, and move what holds old files."""
        runtime, halves = self._runtime, self._halves
        now_ms = runtime.clock.now_ms()
        if now_ms < self._tended_ms:
            halves.shift(now_ms - self._tended_ms)
        self._tended_ms = now_ms
        try:
            while (half := halves.hopeless(now_ms)) is not None:
                await self._transactions.give_up(half)
            for _ in range(MOVES_MAX):
                half = halves.to_be_moved(self._file_start(), now_ms - self._move_ms)
                if half is None:
                    break
                self._transactions.move(half)
        except DiskFull as full:
            runtime.log.warning("transactions.postponed", reason=str(full))

    @property
    def _move_ms(self) -> int:
        return self._runtime.config.half_move_ms

    def _file_start(self) -> int:
        """Where the newest file of the log begins."""
        end, segment_bytes = self._runtime.store.log_end, self._runtime.config.segment_bytes
        return end - end % segment_bytes

    async def save(self) -> None:
        """Write how often each was asked, if that has changed."""
        runtime, halves = self._runtime, self._halves
        changed = halves.changed
        if changed == self._saved:
            return
        asked = {_key(half): [half.checks, half.due_ms] for half in halves if half.checks}
        try:
            await runtime.store.save_config(CHECKS_FILE, json.dumps(asked))
            self._saved = changed
        except DiskFull as full:
            runtime.log.warning("transactions.postponed", reason=str(full))


def load_checks(runtime: Runtime, halves: HalfTable) -> None:
    """At start, when the half messages are known. Raises `Corrupt` naming the file."""
    asked = runtime.store.load_config(CHECKS_FILE, _decode) or {}
    for half in list(halves):
        checks, due_ms = asked.get(_key(half), (0, 0))
        if checks >= half.checks and checks:
            halves.asked_before(half, checks, due_ms)


def _decode(text: str) -> dict[str, tuple[int, int]]:
    try:
        return {key: (int(row[0]), int(row[1])) for key, row in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as wrong:
        reason = f"no table of checks: {wrong!r}"
        raise Corrupt(path=CHECKS_FILE, offset=0, reason=reason) from wrong


def _key(half: Half) -> str:
    return f"{half.origin_offset}@{half.origin_log_offset}"


def _message(half: Half, record: bytes) -> link.HalfMessage:
    return link.HalfMessage(
        half_offset=half.origin_offset,
        log_offset=half.origin_log_offset,
        topic=half.topic,
        checks=half.checks,
        record=record,
    )
