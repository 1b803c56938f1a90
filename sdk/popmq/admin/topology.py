"""Topics and groups that an app declares, and that are there when it starts.

app.topic("orders", type="FIFO")
app.group("billing", start="first", fifo=True, max_attempts=5)
"""

import logging
from typing import Any, Unpack

from popmq._core.topology import GroupOptions, TopicOptions, group_request, topic_request
from popmq.admin.admin import Admin
from popmq.log_fields import fields

log = logging.getLogger(__name__)


class Topology:
    def __init__(self) -> None:
        self._topics: dict[str, TopicOptions] = {}
        self._groups: dict[str, GroupOptions] = {}

    def topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Raises `ValueError` for one that is declared otherwise already."""
        topic_request(name, options)
        _declare(self._topics, "topic", name, options)

    def group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Raises `ValueError`, also for one that is declared otherwise already."""
        group_request(name, options)
        _declare(self._groups, "group", name, options)

    async def ensure(self, admin: Admin) -> None:
        """Make what is not there, change what is otherwise. Raises the errors of
        `popmq.errors`."""
        for name, topic in self._topics.items():
            if await admin.ensure_topic(name, **topic):
                log.info("topic %s is as the app declares it", name, extra=fields(topic=name))
        for name, group in self._groups.items():
            if await admin.ensure_group(name, **group):
                log.info("group %s is as the app declares it", name, extra=fields(group=name))


def _declare(declared: dict[str, Any], what: str, name: str, options: Any) -> None:
    if declared.setdefault(name, options) != options:
        raise ValueError(f"{what} {name} is declared twice, as {declared[name]} and as {options}")
