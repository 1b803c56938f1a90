"""What every verb of a broker runs on: configuration, store, clock, log, and who waits."""

from collections.abc import Callable
from dataclasses import dataclass, field

from popmq_broker.config import BrokerConfig
from popmq_broker.core.polls.stats import Stats
from popmq_broker.engine.journal.damage import Damage
from popmq_broker.engine.journal.long_polls import WaitingPolls
from popmq_broker.store.store import Store
from popmq_common.link.portions import Portions
from popmq_common.process.clock import Clock
from popmq_common.process.logs import Log
from popmq_common.records.names import revive_topic


@dataclass(slots=True, kw_only=True)
class Runtime:
    config: BrokerConfig
    store: Store
    clock: Clock
    log: Log
    long_polls: WaitingPolls
    waiting_pulls: WaitingPolls = field(init=False)
    """Pulls that wait, each by itself."""
    portions: Portions = field(default_factory=Portions)
    stats: Stats = field(default_factory=Stats)
    damage: Damage = field(init=False)
    """What cannot be read."""
    retention_holds: dict[str, Callable[[], int | None]] = field(default_factory=dict)
    """Who keeps retention from deleting: name → lowest log offset that is still needed, if any."""

    def __post_init__(self) -> None:
        self.waiting_pulls = WaitingPolls(self.config.waiting_polls_max)
        self.damage = Damage(self.store, self.log)

    @property
    def revive_topic(self) -> str:
        return revive_topic(self.config.cluster)
