"""What a start has opened and repaired: a store begins with it."""

from collections.abc import Callable
from dataclasses import dataclass

from popmq_broker.store.files.checkpoint_file import Marks
from popmq_broker.store.files.config import StoreConfig
from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import Files, Lock
from popmq_broker.store.index.index import Index
from popmq_broker.store.log.commit_log import CommitLog
from popmq_broker.store.queues.queue_ends import QueueEnds
from popmq_broker.store.queues.queues import Queues
from popmq_common.process.logs import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    config: StoreConfig
    files: Files
    lock: Lock
    """Of the directory; the store lets go of it."""
    commit_log: CommitLog
    queues: Queues
    config_files: ConfigFiles
    index: Index | None
    marks: Marks
    ends: QueueEnds | None
    log: Log
    fatal: Callable[[BaseException], None]
    """Told when the disk fails."""
