"""The tables of a snapshot: names and columns, in one place for writer and reader.

    messages       one row per stored message (the revive topic apart)
    checkpoints    one row per leased message: who was given what, until when
    acks           one row per lease that ended: acknowledged, or a copy was written (expired)
    moves          positions that were set outright, voiding the leases before them
    offsets        committed offsets as the broker last wrote them

Times are milliseconds since 1970, offsets whole numbers. `log_offset` orders everything.
"""

from collections.abc import Mapping
from typing import Any, Final

SCHEMA_VERSION: Final = 1

_KEY: Final = {"consumer_group": "string", "topic": "string", "queue_id": "int"}
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "messages": {
        "topic": "string",
        "queue_id": "int",
        "queue_offset": "bigint",
        "log_offset": "bigint",
        "size_bytes": "int",
        "store_timestamp_ms": "bigint",
        "message_id": "string",
        "reconsume_times": "int",
    },
    "checkpoints": {
        **_KEY,
        "queue_offset": "bigint",
        "generation": "int",
        "pop_time_ms": "bigint",
        "due_ms": "bigint",
        "log_offset": "bigint",
    },
    "acks": {
        **_KEY,
        "queue_offset": "bigint",
        "generation": "int",
        "expired": "boolean",
        "log_offset": "bigint",
    },
    "moves": {**_KEY, "position": "bigint", "log_offset": "bigint"},
    "offsets": {**_KEY, "committed_offset": "bigint"},
}

Row = dict[str, Any]


def ddl(table: str) -> str:
    """The table's schema as Spark reads it."""
    return ", ".join(f"{name} {kind}" for name, kind in TABLES[table].items())
