"""Changes of a broker's settings that `test_settings.py` cuts off at every step, one row each."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.broker_calls import handle, pop_body, send_body
from harness.names import GROUP, TOPIC

from popmq_broker.config import BrokerConfig
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_internal.v1 import link_pb2 as link

SEGMENT_BYTES: Final = 8 * 1024
Work = Callable[[Broker], Awaitable[Any]]


class SettingChange(NamedTuple):
    change: Work
    """What is cut off; when it returns, it was answered OK."""
    is_seen: Callable[[CatalogState], bool]
    """It has happened."""


def config(data_dir: Path) -> BrokerConfig:
    return BrokerConfig(
        data_dir=data_dir,
        name="a",
        segment_bytes=SEGMENT_BYTES,
        queue_file_bytes=200,
        index_slots=20,
        index_entries=200,
        disk_reserve_bytes=0,
        disk_clean_percent=100,
        disk_refuse_percent=100,
        create_groups=True,
    )


async def prepare(broker: Broker) -> None:
    """What there is before: a topic with messages and a group that holds some, a user table, a
    peer; all of it saved."""
    bodies: list[dict[str, Any]] = [
        {"put_topic": link.PutTopic(topic=topic(TOPIC, 2))},
        {"put_group": link.PutGroup(group=group(GROUP, 16))},
        {"peers": link.Peers(peers=[link.Peer(name="b", identity="before")])},
        *(send_body(f"m{number}", None, "", -1, None) for number in range(4)),
        pop_body(2, 10_000, "", "", "", ""),
    ]
    for body in bodies:
        await handle(broker, link.Call(**body))
    await put_access(broker, "root")
    await broker.catalog.save()


def topic(name: str, queues: int) -> link.TopicConfig:
    return link.TopicConfig(
        name=name, read_queues=queues, write_queues=queues, message_type="MIXED"
    )


def group(name: str, attempts: int) -> link.GroupConfig:
    return link.GroupConfig(name=name, max_attempts=attempts, consume_from="FIRST")


async def put_access(broker: Broker, user: str) -> None:
    has = broker.state.catalog_state.access.version
    put = link.PutAccess(
        version=link.AccessVersion(version=has.version + 1, stamp=user),
        base=link.AccessVersion(version=has.version, stamp=has.stamp),
        table=b'{"users":[{"username":"%s"}],"acls":[],"limits":[]}' % user.encode(),
    )
    await handle(broker, link.Call(put_access=put))


def asking(**body: Any) -> Work:
    return lambda broker: handle(broker, link.Call(**body))


async def write_whole(broker: Broker) -> None:
    """As retention does before the log loses its oldest file."""
    await broker.catalog.write_whole(broker.state.runtime.store.log_end)


CHANGES: Final[dict[str, SettingChange]] = {
    "topic made": SettingChange(
        asking(put_topic=link.PutTopic(topic=topic("new", 3))),
        lambda state: "new" in state.topics,
    ),
    "topic made on first use": SettingChange(
        asking(put_topic=link.PutTopic(topic=topic("new", 3), only_new=True, first_use=True)),
        lambda state: "new" in state.topics,
    ),
    "topic changed": SettingChange(
        asking(put_topic=link.PutTopic(topic=topic(TOPIC, 4))),
        lambda state: state.topics[TOPIC].write_queues == 4,
    ),
    "topic deleted": SettingChange(
        asking(delete_topic=link.DeleteTopic(topic=TOPIC)),
        lambda state: TOPIC not in state.topics and TOPIC in state.floors,
    ),
    "group made": SettingChange(
        asking(put_group=link.PutGroup(group=group("new", 3))),
        lambda state: "new" in state.groups,
    ),
    "group made on first use": SettingChange(
        asking(get_group=link.GetGroup(group="new", create=True)),
        lambda state: "new" in state.groups,
    ),
    "group changed": SettingChange(
        asking(put_group=link.PutGroup(group=group(GROUP, 3))),
        lambda state: state.groups[GROUP].max_attempts == 3,
    ),
    "group deleted": SettingChange(
        asking(delete_group=link.DeleteGroup(group=GROUP)),
        lambda state: GROUP not in state.groups,
    ),
    "permission": SettingChange(
        asking(set_permission=link.SetPermission(perm=4)), lambda state: state.perm == 4
    ),
    "users and policies": SettingChange(
        lambda broker: put_access(broker, "alice"), lambda state: "alice" in state.access.table
    ),
    "peer told of": SettingChange(
        asking(peers=link.Peers(peers=[link.Peer(name="c", identity="c1")])),
        lambda state: state.peers.get("c") == "c1",
    ),
    "peer accepted": SettingChange(
        asking(accept_peer=link.AcceptPeer(peer=link.Peer(name="b", identity="after"))),
        lambda state: state.peers["b"] == "after",
    ),
    "all written again": SettingChange(write_whole, lambda _: True),
}
