"""What all inboxes share: the key, the policies, the counts, and two ways of use.

    inbox = SqlInbox(engine, key=message_key())

    # by a handler: `@app.handler(…, idempotent=inbox)` calls
    handled = await inbox.run(message, handle)

    # or by hand
    async with inbox.once(message) as turn:
        if turn.first:
            ...                        # the effect
    await client.ack(message)          # in either case

    states of a key:   unknown ──claim──► in progress ──handler returned──► done
                          ▲                    │ handler raised, or the claim ran out
                          └────────────────────┘

A store implements `_turn`: it claims, lets the handler work, and marks the key done.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypedDict, TypeVar, Unpack

from popmq.handle_once import Handle
from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import KeyMissing, OutsideTurn, PayloadMismatch
from popmq.idempotence.key import (
    KeyOf,
    PayloadOf,
    body_of,
    bounded,
    fingerprint,
    key_of,
    message_key,
)
from popmq.idempotence.window import RETRIES_S, too_short
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.outcome import Reject, Retry

log = logging.getLogger("popmq.idempotence")
RETRY_DELAY_S = 1.0  # how long one waits for another consumer of the same key


class WhenMissing(Enum):
    """What becomes of a message without a key."""

    ERROR = "error"
    """`KeyMissing` is raised: it is tried again, and ends in the dead letters."""
    REJECT = "reject"
    """To the dead letters at once."""
    HANDLE = "handle"
    """It is handled, and nobody remembers it."""


class WhenMismatch(Enum):
    """What becomes of a known key with another payload."""

    ERROR = "error"
    """`PayloadMismatch` is raised."""
    REJECT = "reject"
    SUPPRESS = "suppress"
    """The key alone counts: it is a duplicate."""


@dataclass(slots=True)
class KeyTurn:
    """One delivery's turn at its key."""

    first: bool
    """False: a duplicate; the effect is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyClaim:
    """What a store works with."""

    message: ReceivedMessage
    scope: str
    key: str | None
    """None: handle it and remember nothing."""
    payload: str
    """Its fingerprint."""


class InboxOptions(TypedDict, total=False):
    """What every inbox can be told."""

    key: KeyOf
    """By default the first message key."""
    scope: str
    """Whose keys these are; by default the message's group. A group that handles several topics
    whose keys may be equal needs one for each."""
    payload: PayloadOf
    """The bytes that duplicates have in common; by default the body."""
    when_missing: WhenMissing
    when_mismatch: WhenMismatch
    retries_s: float
    """How long the retries of the group take, for the check at `start`."""
    retry_delay_s: float
    """When to try again while another consumer works on the key."""
    clock: Callable[[], float]
    """Seconds since 1970."""


T = TypeVar("T", bound=KeyTurn)


class Inbox(ABC, Generic[T]):
    """Use `MemoryInbox`, `SqlInbox` or `RedisInbox`."""

    def __init__(self, *, window_s: float, **options: Unpack[InboxOptions]) -> None:
        """`window_s`: how long a key is remembered."""
        self.counts = IdempotenceCounts()
        self.window_s = window_s
        self._key = options.get("key") or message_key()
        self._scope = options.get("scope")
        self._payload = options.get("payload", body_of)
        self._when_missing = options.get("when_missing", WhenMissing.ERROR)
        self._when_mismatch = options.get("when_mismatch", WhenMismatch.ERROR)
        self._retries_s = options.get("retries_s", RETRIES_S)
        self._retry_delay_s = options.get("retry_delay_s", RETRY_DELAY_S)
        self._clock = options.get("clock", time.time)
        self._current: ContextVar[T] = ContextVar("popmq_turn")

    @property
    def turn(self) -> T:
        """The turn of the message that is being handled here. Raises `OutsideTurn`."""
        try:
            return self._current.get()
        except LookupError:
            raise OutsideTurn from None

    async def start(self, retention_s: float | None) -> None:
        """Before the first message. `retention_s`: how long the topic keeps messages; None: not
        known. Logs a warning when a duplicate could come later than its key is remembered."""
        warning = too_short(self.window_s, retention_s, self._retries_s)
        if warning is not None:
            log.warning("%s: %s", type(self).__name__, warning, extra=fields(None, warning))

    async def run(self, message: ReceivedMessage, handle: Handle) -> bool:
        """True: handled now. False: a duplicate; ack it. Raises what `handle` raises, `Retry` when
        another consumer works on the key, `Reject`, `KeyMissing`, `PayloadMismatch`."""
        async with self.once(message) as turn:
            if turn.first:
                await handle(message)
        return turn.first

    @asynccontextmanager
    async def once(self, message: ReceivedMessage) -> AsyncIterator[T]:
        """The turn of this delivery. Leaving the block without an error makes its key done; an
        error makes it free. Raises like `run`."""
        async with self._turn(self._claim(message)) as turn:
            current = self._current.set(turn)
            try:
                yield turn
            finally:
                self._current.reset(current)
        if turn.first:
            self.counts.handled += 1
        else:
            self.counts.suppressed += 1

    @abstractmethod
    def _turn(self, claim: KeyClaim) -> AbstractAsyncContextManager[T]:
        """Claim, yield, mark as done or free."""

    def _claim(self, message: ReceivedMessage) -> KeyClaim:
        key: str | None = None
        try:
            key = key_of(message, self._key)
        except KeyMissing as missing:
            self.counts.key_missing += 1
            if self._when_missing is WhenMissing.ERROR:
                raise
            if self._when_missing is WhenMissing.REJECT:
                raise Reject(str(missing)) from missing
        return KeyClaim(
            message=message,
            scope=bounded(message.group if self._scope is None else self._scope),
            key=key,
            payload=fingerprint(self._payload(message)),
        )

    def _known(self, claim: KeyClaim, payload: str) -> None:
        """The key is known, with this payload: a duplicate unless this raises."""
        if payload == claim.payload or claim.key is None:
            return
        self.counts.payload_mismatch += 1
        mismatch = PayloadMismatch(claim.message, claim.scope, claim.key)
        if self._when_mismatch is WhenMismatch.ERROR:
            raise mismatch
        if self._when_mismatch is WhenMismatch.REJECT:
            raise Reject(str(mismatch)) from mismatch

    def _busy(self, claim: KeyClaim) -> Retry:
        self.counts.in_progress += 1
        reason = f"another consumer works on {claim.key!r}"
        return Retry(self._retry_delay_s, reason, counted=False)
