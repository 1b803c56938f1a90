"""Who consumes: members of groups, locks on queues, pulls that follow, what was asked for last."""

from dataclasses import dataclass, field

from popmq_broker.core.groups.access_lock import Locks
from popmq_broker.core.groups.members import Members
from popmq_broker.core.groups.pullers import Pullers
from popmq_broker.core.groups.queue_lock import QueueLocks
from popmq_broker.core.polls.receives import LastReceives


@dataclass(slots=True)
class ConsumerState:
    queue_locks: QueueLocks
    locks: Locks = field(default_factory=Locks)
    members: Members = field(default_factory=Members)
    pullers: Pullers = field(default_factory=Pullers)
    receives: LastReceives = field(default_factory=LastReceives)
