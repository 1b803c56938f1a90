"""Whose topics and groups are: the label that an operator gave them (`--owner`)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX

NOBODY: Final = ""
Named = tuple[str, str]
"""`TOPIC` or `GROUP`, and the name."""
TOPIC: Final = "topic"
GROUP: Final = "group"
Said = Mapping[Named, tuple[int, str]]
"""When it was said, in ms since 1970, and whose it is; "": nobody's, or it was deleted."""


@dataclass(frozen=True, slots=True)
class Owners:
    by_name: Mapping[Named, str]

    def of_topic(self, topic: str) -> str:
        """Retry topics and dead letters are those of their group."""
        for group in _groups(topic):
            if (GROUP, group) in self.by_name:
                return self.by_name[GROUP, group]
        return self.by_name.get((TOPIC, topic), NOBODY)

    def of_taken(self, topic: str, group: str) -> str:
        """Of messages that a group takes: the group's; if it is nobody's, the topic's."""
        return self.by_name.get((GROUP, group), NOBODY) or self.of_topic(topic)


def newest(said: Iterable[Said]) -> Owners:
    """By what every broker says: what was said last holds."""
    found: dict[Named, tuple[int, str]] = {}
    for one in said:
        for named, at in one.items():
            found[named] = max(at, found.get(named, at))
    return Owners({named: owner for named, (_, owner) in found.items()})


def _groups(topic: str) -> Iterator[str]:
    """Whose retry topic or dead letters it may be, the longest name first: names may have `_`."""
    if topic.startswith(DEAD_LETTER_PREFIX):
        yield topic.removeprefix(DEAD_LETTER_PREFIX)
    elif topic.startswith(RETRY_PREFIX):
        name = topic.removeprefix(RETRY_PREFIX)
        while name:
            yield name
            name, _, _ = name.rpartition("_")
