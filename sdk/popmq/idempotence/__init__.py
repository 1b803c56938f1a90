"""Handlers that bear duplicates: each business message takes effect once.

`pip install popmq[sql]` for the inbox and the guards in a database, `popmq[redis]` for those in
Redis. docs/idempotence.md tells which one is for you, and what each cannot do.

Import the stores from their modules: `popmq.idempotence.sql`, `.redis_flag`, `.state_machine`,
`.version`, `.row_lock`, `.redis_lock`, `.fenced_rows`.
"""

from popmq.handle_once import Idempotence
from popmq.idempotence.counts import IdempotenceCounts
from popmq.idempotence.errors import (
    Fenced,
    IdempotenceError,
    InboxTableMissing,
    KeyMissing,
    OutsideTurn,
    PayloadMismatch,
    RowMissing,
    UnknownState,
)
from popmq.idempotence.inbox import Inbox, KeyTurn, WhenMismatch, WhenMissing
from popmq.idempotence.key import KeyOf, body_path, message_key, message_property
from popmq.idempotence.memory import MemoryInbox

__all__ = [
    "Fenced",
    "Idempotence",
    "IdempotenceCounts",
    "IdempotenceError",
    "Inbox",
    "InboxTableMissing",
    "KeyMissing",
    "KeyOf",
    "KeyTurn",
    "MemoryInbox",
    "OutsideTurn",
    "PayloadMismatch",
    "RowMissing",
    "UnknownState",
    "WhenMismatch",
    "WhenMissing",
    "body_path",
    "message_key",
    "message_property",
]
