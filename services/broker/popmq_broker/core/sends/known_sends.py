"""Which messages were sent lately, and where they lie: so that a repeated send is not stored again.

    key of (topic, message id) ──► log offset

A key is a hash, so an entry says only where to look: the record there tells whether it is this
message (core/sends/sent_message.py). A number takes less room than an id of 34 characters: an entry
takes some 100 bytes.

There are two tables, the young and the old one. When the young one is full, or has been filled for
`age_ms`, it becomes the old one, and what was the old one is dropped as a whole. So a send is known
for `age_ms` at least, unless more than half of `entries_max` came behind it.
"""

from collections.abc import Iterable, KeysView, Sequence
from typing import Final

from popmq_common.records import properties as names

_ID: Final = f"{names.UNIQ_KEY}{names.NAME_END}".encode()
_VALUE_END: Final = names.VALUE_END.encode()
_USUAL_ID_BYTES: Final = 34
"""Of an official client's message id: 17 bytes in hexadecimal digits."""
USUAL_BYTES: Final = len(_ID) + _USUAL_ID_BYTES + 1
"""Of the first item of the property string, when it is such an id."""
_USUAL_END: Final = USUAL_BYTES - 1
_USUAL_FIRST: Final = _ID[0]
_USUAL_LAST: Final = _VALUE_END[0]


def key_of(topic: str, properties: bytes) -> int:
    """The key of one message, by its property string; all without an id share one.

    0.2 µs with an official client's id, which a proxy puts first. That item is taken for the id by
    its length and first letter: the record at the place tells whether it is.
    """
    try:
        usual = properties[_USUAL_END] == _USUAL_LAST and properties[0] == _USUAL_FIRST
    except IndexError:
        usual = False
    if usual:
        return hash((topic, properties[:USUAL_BYTES]))
    return hash((topic, _ID + id_of(properties) + _VALUE_END))


def id_of(properties: bytes) -> bytes:
    """The message id; empty: there is none."""
    return names.bytes_of(properties, _ID) or b""


class KnownSends:
    def __init__(self, entries_max: int, age_ms: int) -> None:
        """`entries_max`: 0: no send is known."""
        self.on = entries_max > 0 and age_ms > 0
        self._table_max = max(1, entries_max // 2)
        self._age_ms = age_ms
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._young_keys: KeysView[int] = self._young.keys()
        self._old_keys: KeysView[int] = self._old.keys()
        self._turn_ms: int | None = None
        """When the young table becomes the old one; None: nothing came yet."""
        self._has_turned = False

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def all_new(self, keys: Sequence[int]) -> bool:
        """None of them is known, and no two are the same. 0.1 µs for each of 32."""
        return (
            self._young_keys.isdisjoint(keys)
            and self._old_keys.isdisjoint(keys)
            and (len(keys) == 1 or len(set(keys)) == len(keys))
        )

    def find(self, key: int) -> int | None:
        """Where a message with this key lies in the log; None: nowhere."""
        found = self._young.get(key)
        return self._old.get(key) if found is None else found

    def add(self, keys: Iterable[int], log_offsets: Iterable[int], now_ms: int) -> None:
        """Messages that were stored, in order."""
        young, turn_ms = self._young, self._turn_ms
        if turn_ms is None or now_ms >= turn_ms or len(young) >= self._table_max:
            young = self._turn(now_ms)
        for key, log_offset in zip(keys, log_offsets, strict=True):
            young[key] = log_offset

    def add_older(self, keys: Iterable[int], log_offsets: Iterable[int]) -> bool:
        """Messages that were stored before all others here. False: there is no room for them, or
        they would be dropped by now."""
        if self._has_turned or len(self._old) >= self._table_max:
            return False
        for key, log_offset in zip(keys, log_offsets, strict=True):
            self._old[key] = log_offset
        return True

    def _turn(self, now_ms: int) -> dict[int, int]:
        if self._turn_ms is not None:
            self._has_turned = True
            self._old, self._young = self._young, {}
            self._old_keys, self._young_keys = self._young_keys, self._young.keys()
        self._turn_ms = now_ms + self._age_ms
        return self._young
