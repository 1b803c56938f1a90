"""Holds users, topics and clients to their limits, at this proxy."""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

from popmq_common.errors import LimitReached
from popmq_proxy.core.access.limits import EACH, Amount, Ceilings, Limits, TokenBucket, ceilings
from popmq_proxy.core.access.table import AccessTable
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.access.in_use import InUse
from popmq_proxy.rpc.shared.context import CallContext

SUBJECTS_MAX: Final = 20_000
"""Whose use is remembered; the one unused longest is forgotten first, and begins anew."""

HOUR_S: Final = 3_600.0
NOTHING: Final = Amount(0, 0)


class Limiter:
    def __init__(self, tables: AccessTables) -> None:
        self._tables = tables
        self._buckets: OrderedDict[str, tuple[Limits, TokenBucket | None, TokenBucket | None]] = (
            OrderedDict()
        )
        """Subject → its limits when they were made, messages, bytes."""
        self._created: OrderedDict[str, TokenBucket] = OrderedDict()
        """By user."""
        self._creations: Ceilings | None = None
        self.in_use = InUse()
        self.limits_sends = False
        """Somebody may send only so much."""
        tables.on_change.append(self._changed)

    def _changed(self, _: AccessTable, table: AccessTable) -> None:
        limits = table.limits
        self.limits_sends = any(one.messages_per_s or one.bytes_per_s for one in limits.values())
        self._creations = ceilings(limits, "User", lambda one: one.creations_per_h)
        self.in_use.changed(limits)

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

    def check_creation(self, user: str) -> None:
        """A topic or group is to be made because the user uses it. Raises `LimitReached`."""
        bucket = self._creations_of(user)
        wait_s = bucket.wait_s(1, time.monotonic()) if bucket else 0.0
        if bucket and wait_s:
            what = f"create {bucket.rate} topics and groups an hour by using them"
            subject, wait_ms = f"User:{user}", int(wait_s * 1_000) + 1
            raise LimitReached(subject=subject, what=what, wait_ms=wait_ms)

    def take_creation(self, user: str) -> None:
        """One that `check_creation` let pass was made."""
        bucket = self._creations_of(user)
        if bucket:
            bucket.take(1)

    def _creations_of(self, user: str) -> TokenBucket | None:
        limit = self._creations.of(user) if user and self._creations else 0
        if not limit:
            return None
        bucket = self._created.pop(user, None)
        if bucket is None or bucket.rate != limit:
            bucket = TokenBucket(limit, time.monotonic(), HOUR_S)
        while len(self._created) >= SUBJECTS_MAX:
            self._created.popitem(last=False)
        self._created[user] = bucket
        return bucket

    def is_free(self, ctx: CallContext, topic: str) -> bool:
        """Nothing limits what this user and client send to this topic."""
        if self.limits_sends and any(self._of_send(ctx, {topic: NOTHING})):
            return False
        return self.in_use.are_none(ctx)

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

    def _of_user(self, ctx: CallContext) -> Iterator[tuple[str, Limits]]:
        yield from self._of(f"User:{ctx.user}", f"User:{EACH}")
        yield from self._of(f"Client:{ctx.client_id}", f"Client:{EACH}")

    def _of(self, subject: str, each: str) -> Iterator[tuple[str, Limits]]:
        limits = self._tables.current.limits
        found = limits.get(subject) or limits.get(each)
        if found is not None and (found.messages_per_s or found.bytes_per_s):
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
