"""`popmq store rebuild`: what a start makes again, made again at once."""

from dataclasses import replace
from typing import Final

from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.catalog import CATALOG_FILE
from popmq_broker.engine.catalog.catalog import (
    ACCESS_FILE,
    FLOORS_FILE,
    GROUPS_FILE,
    PEERS_FILE,
    PERMISSION_FILE,
    TOPICS_FILE,
)
from popmq_broker.engine.groups.offsets import OFFSETS_FILE
from popmq_broker.store.offline.closed_directory import prepare_rebuild
from popmq_broker.store.offline.settings_in_log import check_whole
from popmq_common.process.clock import SystemClock

SETTINGS_FILES: Final = (
    *(TOPICS_FILE, GROUPS_FILE, FLOORS_FILE, PERMISSION_FILE, PEERS_FILE, ACCESS_FILE),
    CATALOG_FILE,
)


async def rebuild(config: BrokerConfig, *, offsets: bool, settings: bool = False) -> None:
    """Make the queues again from the log, with `offsets` the positions from the journal, with
    `settings` topics, groups, users and the permission.

    What a start does when they are missing, followed by a clean stop. Raises as `open_store`, and
    `BadRequest` when the log does not tell all settings.
    """
    if settings:
        check_whole(config.data_dir)
    set_aside = [OFFSETS_FILE] if offsets else []
    set_aside += SETTINGS_FILES if settings else ()
    segment_bytes = prepare_rebuild(config.data_dir, set_aside)
    broker = await open_engine(replace(config, segment_bytes=segment_bytes), SystemClock())
    await broker.close()
