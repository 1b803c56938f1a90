"""Keys in this process's memory.

Promise: within one process, for `window_s` and the newest `keys_max` keys, each key is handled
once, also when deliveries overlap. Limits: a restart forgets everything, other processes know
nothing. For duplicates that come in quick succession, for tests, and before a store that knows for
certain.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Unpack

from popmq.idempotence.inbox import Inbox, InboxOptions, KeyClaim, KeyTurn
from popmq.idempotence.window import WINDOW_S
from popmq.log_fields import fields

log = logging.getLogger("popmq.idempotence")
KEYS_MAX = 100_000  # some 25 MB


class MemoryInbox(Inbox[KeyTurn]):
    def __init__(
        self,
        *,
        keys_max: int = KEYS_MAX,
        window_s: float = WINDOW_S,
        **options: Unpack[InboxOptions],
    ) -> None:
        super().__init__(window_s=window_s, **options)
        self.evicted_early = 0
        """Keys forgotten before their time because `keys_max` newer ones came."""
        self._keys_max = keys_max
        self._done: OrderedDict[tuple[str, str], tuple[float, str]] = OrderedDict()
        """(scope, key) → (when it may be forgotten, payload), the oldest first."""
        self._in_progress: set[tuple[str, str]] = set()  # as many as handlers run

    def __len__(self) -> int:
        """Keys that are remembered."""
        return len(self._done)

    @asynccontextmanager
    async def _turn(self, claim: KeyClaim) -> AsyncIterator[KeyTurn]:
        if claim.key is None:
            yield KeyTurn(first=True)
            return
        self._forget()
        place = (claim.scope, claim.key)
        if place in self._in_progress:
            raise self._busy(claim)
        known = self._done.get(place)
        if known is not None:
            self._known(claim, known[1])
            yield KeyTurn(first=False)
            return
        self._in_progress.add(place)
        try:
            yield KeyTurn(first=True)
            self._done[place] = (self._clock() + self.window_s, claim.payload)
        finally:
            self._in_progress.remove(place)

    def _forget(self) -> None:
        now_s = self._clock()
        while self._done:
            until_s, _ = next(iter(self._done.values()))
            if until_s > now_s:
                if len(self._done) < self._keys_max:
                    return
                if not self.evicted_early:
                    reason = f"keys_max={self._keys_max} is too small for {self.window_s:g} s"
                    text = "MemoryInbox: %s: old keys are forgotten before their time"
                    log.warning(text, reason, extra=fields(None, reason))
                self.evicted_early += 1
            self._done.popitem(last=False)
