"""Groups in rows: settings as the brokers have them, figures as far as somebody told them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records.names import retry_topic
from popmq_console.reading.sheets import Column
from popmq_readings.cluster_view import GroupRow
from popmq_readings.doctor_checks import SILENT_MS

STATES: Final = ("stuck", "behind", "idle")


@dataclass(slots=True)
class GroupLine:
    """One row of the list. None: not known."""

    name: str
    fifo: bool
    max_attempts: int
    owner: str = ""
    topics: list[str] = field(default_factory=list)
    lag: int | None = None
    in_flight: int | None = None
    waiting_polls: int | None = None
    last_receive_ms: int | None = None
    """Of the newest receive at any broker; 0: none since the brokers' start."""
    stuck: bool = False

    @property
    def state(self) -> str:
        if self.lag is None:
            return ""
        if self.stuck:
            return "stuck"
        return "behind" if self.lag > (self.in_flight or 0) else "idle"


COLUMNS: Final[Mapping[str, Column[GroupLine]]] = {
    "name": lambda one: one.name,
    "lag": lambda one: one.lag,
    "flight": lambda one: one.in_flight,
    "polls": lambda one: one.waiting_polls,
    "receive": lambda one: one.last_receive_ms,
    "attempts": lambda one: one.max_attempts,
    "owner": lambda one: one.owner or None,
}


def group_lines(
    groups: Iterable[admin.Group], inspected: admin.InspectResponse | None
) -> list[GroupLine]:
    """A group that no broker speaks of has no figures, unless all have told of all they have."""
    lines = {one.name: GroupLine(one.name, one.fifo, one.max_attempts, one.owner) for one in groups}
    for broker in inspected.brokers if inspected is not None else ():
        for use in broker.groups:
            line = lines.get(use.group)
            if line is None:
                continue
            if use.topic not in line.topics:
                line.topics.append(use.topic)
            line.lag = (line.lag or 0) + use.lag
            line.in_flight = (line.in_flight or 0) + use.in_flight
            line.waiting_polls = (line.waiting_polls or 0) + use.waiting_polls
            line.last_receive_ms = max(line.last_receive_ms or 0, use.last_receive_ms)
            line.stuck = line.stuck or is_stuck(use, broker)
    return list(lines.values())


def is_stuck(use: admin.GroupUse, broker: admin.BrokerState) -> bool:
    """As `popmq doctor` sees it: messages wait, and nobody has asked for a while."""
    since_ms = use.last_receive_ms or broker.started_ms
    waits = use.lag > use.in_flight and not use.waiting_polls
    return waits and broker.now_ms - since_ms > SILENT_MS


@dataclass(slots=True)
class TopicOfGroup:
    """How far a group is with one topic, over all brokers."""

    topic: str
    queues: list[admin.GroupQueue]
    figures: GroupRow | None
    """None: not among those that the brokers told."""

    @property
    def lag(self) -> int:
        """Conserved where the brokers told it: also what waits for a retry, or for its turn."""
        return sum(queue.lag for queue in self.queues) if self.figures is None else self.figures.lag

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight for queue in self.queues)

    @property
    def expired(self) -> int:
        return sum(queue.expired for queue in self.queues)


def topics_of_group(
    queues: Sequence[admin.GroupQueue], figures: Iterable[GroupRow], group: str
) -> list[TopicOfGroup]:
    """The largest lag first."""
    known = {one.topic: one for one in figures if one.group == group}
    by_topic: dict[str, list[admin.GroupQueue]] = {}
    for queue in queues:
        by_topic.setdefault(origin_of(group, queue.topic), []).append(queue)
    found = [TopicOfGroup(topic, own, known.get(topic)) for topic, own in by_topic.items()]
    return sorted(found, key=lambda one: (-one.lag, one.topic))


def origin_of(group: str, topic: str) -> str:
    """The topic whose retries it has; a topic that is none of the group's retries stays."""
    return topic.removeprefix(retry_topic(group, ""))


def uses_of_topic(inspected: admin.InspectResponse | None, topic: str) -> list[GroupRow] | None:
    """Groups that have received of the topic; None: not known."""
    if inspected is None:
        return None
    rows: dict[str, GroupRow] = {}
    for broker in inspected.brokers:
        for use in broker.groups:
            if use.topic == topic:
                silent_ms = broker.now_ms - (use.last_receive_ms or broker.started_ms)
                row = rows.setdefault(use.group, GroupRow(use.group, topic, silent_ms=silent_ms))
                row.ready += use.lag - use.in_flight
                row.in_flight += use.in_flight
                row.waiting_polls += use.waiting_polls
                row.silent_ms = min(row.silent_ms, silent_ms)
    return sorted(rows.values(), key=lambda one: (-one.lag, one.group))


def stuck_queues(queues: Sequence[admin.GroupQueue], count_max: int) -> list[admin.GroupQueue]:
    """Whose oldest open message is looked at: those with the largest lag."""
    behind = [queue for queue in queues if queue.lag]
    return sorted(behind, key=lambda queue: -queue.lag)[:count_max]


def settings_of(group: admin.Group, policy: str) -> Mapping[str, object]:
    """For a table of pairs. `policy`: as words."""
    start = group.consume_from.lower() if group.consume_from != "TIME" else "a time"
    return {
        **({"owner": group.owner} if group.owner else {}),
        "order": "FIFO by message group" if group.fifo else "none",
        "attempts before the dead letters": group.max_attempts,
        "deliveries at most, counted or not": group.max_hand_outs,
        "delays between attempts": policy.replace(",", ", "),
        "new topics from": f"the {start} message" if group.consume_from != "TIME" else start,
    }
