"""What a broker holds in memory, in parts: a verb's constructor takes those that it may touch."""

from popmq_broker.config import BrokerConfig
from popmq_broker.core.groups.queue_lock import QueueLocks
from popmq_broker.core.sends.known_sends import KnownSends
from popmq_broker.core.timers.timer_table import TimerTable
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.runtime import Runtime


class BrokerState:
    """All parts. Only who puts a broker together, or looks at it from outside, sees this."""

    def __init__(self, runtime: Runtime) -> None:
        config: BrokerConfig = runtime.config
        self.runtime = runtime
        self.catalog_state = CatalogState(runtime.store, drains=runtime.config.drains)
        self.lease_state = LeaseState(runtime, self.catalog_state)
        self.consumer_state = ConsumerState(QueueLocks(config.queue_lock_ms))
        self.halves = HalfTable(
            interval_ms=config.transaction_check_interval_ms,
            checks_max=config.transaction_checks_max,
            age_ms_max=config.transaction_age_ms_max,
            settled_max=config.settled_transactions_max,
        )
        """Half messages of transactions that are not settled."""
        self.timers = TimerTable()
        """Delayed messages."""
        self.known_sends = KnownSends(config.known_sends_max, config.known_sends_ms)
