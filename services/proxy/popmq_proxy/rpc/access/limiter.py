"""Holds users, topics and clients to their limits, at this proxy."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from popmq_common.errors import LimitReached
from popmq_proxy.core.access.limits import EACH, Amount, Limits, TokenBucket
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.shared.context import CallContext

SUBJECTS_MAX: Final = 20_000
"""Whose use is remembered; the one unused longest is forgotten first, and begins anew."""


class Limiter:
    def __init__(self, tables: AccessTables) -> None:
        self._tables = tables
        self._buckets: OrderedDict[str, tuple[Limits, TokenBucket | None, TokenBucket | None]] = (
            OrderedDict()
        )
        """Subject → its limits when they were made, messages, bytes."""
        self._waiting: Counter[str] = Counter()

    @property
    def has_limits(self) -> bool:
        return bool(self._tables.current.limits)

    def check_send(self, ctx: CallContext, sent: Mapping[str, Amount]) -> None:
        """`sent`: by topic. Nothing is taken. Raises `LimitReached`."""
        now_s = time.monotonic()
        for subject, limits, amount in self._of_send(ctx, sent):
            _, messages, sizes = self._bucket(subject, limits, now_s)
            for bucket, wanted, what in (
                (messages, amount.messages, "messages"),
                (sizes, amount.bytes, "bytes"),
            ):
                wait_s = bucket.wait_s(wanted, now_s) if bucket else 0.0
                if bucket and wait_s:
                    what = f"send {bucket.rate} {what} a second"
                    raise LimitReached(subject=subject, what=what, wait_ms=int(wait_s * 1_000) + 1)

    def take_send(self, ctx: CallContext, sent: Mapping[str, Amount]) -> None:
        """What `check_send` let pass."""
        now_s = time.monotonic()
        for subject, limits, amount in self._of_send(ctx, sent):
            _, messages, sizes = self._bucket(subject, limits, now_s)
            if messages:
                messages.take(amount.messages)
            if sizes:
                sizes.take(amount.bytes)

    @contextmanager
    def receiving(self, ctx: CallContext, topic: str) -> Iterator[None]:
        """While a receive is under way. Raises `LimitReached`."""
        subjects = []
        for subject, limits in self._subjects(ctx, topic):
            if limits.waiting_receives:
                if self._waiting[subject] >= limits.waiting_receives:
                    what = f"have {limits.waiting_receives} receives wait at a time"
                    raise LimitReached(subject=subject, what=what, wait_ms=1_000)
                subjects.append(subject)
        self._waiting.update(subjects)
        try:
            yield
        finally:
            for subject in subjects:
                self._waiting[subject] -= 1
                if not self._waiting[subject]:
                    del self._waiting[subject]

    def _of_send(
        self, ctx: CallContext, sent: Mapping[str, Amount]
    ) -> Iterator[tuple[str, Limits, Amount]]:
        limits = self._tables.current.limits
        if not limits:
            return
        total = Amount(
            sum(one.messages for one in sent.values()), sum(one.bytes for one in sent.values())
        )
        for subject, found in self._of_user(ctx):
            yield subject, found, total
        for topic, amount in sent.items():
            for subject, found in self._of(f"Topic:{topic}", f"Topic:{EACH}"):
                yield subject, found, amount

    def _subjects(self, ctx: CallContext, topic: str) -> Iterator[tuple[str, Limits]]:
        if self._tables.current.limits:
            yield from self._of_user(ctx)
            yield from self._of(f"Topic:{topic}", f"Topic:{EACH}")

    def _of_user(self, ctx: CallContext) -> Iterator[tuple[str, Limits]]:
        yield from self._of(f"User:{ctx.user}", f"User:{EACH}")
        yield from self._of(f"Client:{ctx.client_id}", f"Client:{EACH}")

    def _of(self, subject: str, each: str) -> Iterator[tuple[str, Limits]]:
        limits = self._tables.current.limits
        found = limits.get(subject) or limits.get(each)
        if found is not None:
            yield subject, found

    def _bucket(
        self, subject: str, limits: Limits, now_s: float
    ) -> tuple[Limits, TokenBucket | None, TokenBucket | None]:
        kept = self._buckets.pop(subject, None)
        if kept is None or kept[0] != limits:
            kept = (
                limits,
                TokenBucket(limits.messages_per_s, now_s) if limits.messages_per_s else None,
                TokenBucket(limits.bytes_per_s, now_s) if limits.bytes_per_s else None,
            )
        while len(self._buckets) >= SUBJECTS_MAX:
            self._buckets.popitem(last=False)
        self._buckets[subject] = kept
        return kept
