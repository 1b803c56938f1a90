"""What a group wants of a topic: everything, messages with certain tags, or those that an SQL92
expression over their properties is true for (`sql_filter.py`).

A tag expression is `*`, or tags joined by `||` with blanks and empty parts allowed. The queue
entry's hash is compared first, and the tag's text afterwards, so tags with the same hash (`Aa`
and `BB`) are told apart here and not left to the client.

Source: RocketMQ FilterAPI.buildSubscriptionData, DefaultMessageFilter.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from popmq_broker.core.filters.sql_filter import SqlFilter
from popmq_broker.core.store.queue_entry import tags_code
from popmq_common.errors import IllegalFilter
from popmq_common.records import properties as names

EXPRESSIONS_CACHED_MAX: Final = 4096
_TAG: Final = (names.TAGS + names.NAME_END).encode()


@dataclass(frozen=True, slots=True)
class TagFilter:
    tags: frozenset[str]
    codes: frozenset[int]

    def may_match(self, code: int) -> bool:
        """By the queue entry alone; a hash may promise too much, never too little."""
        return code in self.codes

    def matches(self, properties: bytes) -> bool:
        """By a record's property string."""
        tag = names.value_of(properties, _TAG)
        return tag is not None and tag in self.tags


Filter = TagFilter | SqlFilter | None
"""None: everything."""


@lru_cache(maxsize=EXPRESSIONS_CACHED_MAX)
def parse_tags(expression: str) -> Filter:
    """Raises `IllegalFilter` when no tag is left."""
    text = expression.strip()
    if text in {"", "*"}:
        return None
    tags = frozenset(part.strip() for part in text.split("||")) - {""}
    if not tags:
        raise IllegalFilter(expression=expression, reason="it names no tag")
    return TagFilter(tags, frozenset(tags_code(tag) for tag in tags))
