"""Random histories of a broker's settings, and what its log alone makes of them."""

import asyncio
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.broker import EngineDriver

from popmq_broker import rebuild
from popmq_broker.app import open_engine
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_common.errors import PopMQError
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link

Step = tuple[str, int]
KINDS: Final = (
    *("topic", "no topic", "group", "no group", "perm", "access", "peer"),
    *("send", "retain", "save", "restart", "crash"),
)
STARTS: Final = ("restart", "crash")
STEPS_MAX: Final = 40


def any_history(rng: random.Random) -> list[Step]:
    return [(rng.choice(KINDS), rng.randrange(4)) for _ in range(rng.randint(1, STEPS_MAX))]


def check(folder: Path, steps: list[Step]) -> None:
    """After these steps the log alone has what the broker has; and each start has found what was
    there before it. Raises `AssertionError`."""
    driver = EngineDriver(folder, retention_ms=86_400_000)
    try:
        driver.make(queues=1)
        for step in steps:
            before = held(driver.broker.state.catalog_state)
            take(driver, step)
            if step[0] in STARTS:
                assert held(driver.broker.state.catalog_state) == before, step
        wanted = held(driver.broker.state.catalog_state)
        assert rebuilt(driver, folder) == wanted
        assert held(driver.broker.state.catalog_state) == wanted
    finally:
        driver.close()


def held(state: CatalogState) -> tuple[object, ...]:
    return (
        dict(state.topics),
        dict(state.groups),
        dict(state.floors),
        dict(state.peers),
        state.perm,
        state.access,
    )


def take(driver: EngineDriver, step: Step) -> None:
    """One change; what the broker refuses changes nothing."""
    kind, number = step
    name = f"n{number}"
    try:
        if kind == "topic":
            topic = link.TopicConfig(
                name=name,
                read_queues=number + 1,
                write_queues=number + 1,
                message_type="MIXED",
                owner=f"team-{number}" if number % 2 else None,
            )
            driver.call(put_topic=link.PutTopic(topic=topic))
        elif kind == "no topic":
            driver.call(delete_topic=link.DeleteTopic(topic=name))
        elif kind == "group":
            group = link.GroupConfig(
                name=name,
                max_attempts=number + 1,
                consume_from="FIRST",
                owner=f"team-{number}" if number % 2 else None,
            )
            driver.call(put_group=link.PutGroup(group=group))
        elif kind == "no group":
            driver.call(delete_group=link.DeleteGroup(group=name))
        elif kind == "perm":
            driver.call(set_permission=link.SetPermission(perm=4 if number % 2 else 6))
        elif kind == "peer":
            peer = link.Peer(name=name, identity=f"id{number}")
            driver.call(peers=link.Peers(peers=[peer]))
        elif kind == "access":
            put_access(driver, number)
        elif kind == "send":
            for _ in range(12):
                driver.send("x" * 900)
        elif kind == "save":
            driver.run(driver.broker.catalog.save())
        elif kind == "restart":
            driver.restart()
        elif kind == "crash":
            driver.crash(random.Random(number))
        else:
            driver.clock.advance(4 * 86_400_000)
            driver.retain()
    except PopMQError:
        pass


def put_access(driver: EngineDriver, number: int) -> None:
    has = driver.broker.state.catalog_state.access.version
    base = link.AccessVersion(version=has.version, stamp=has.stamp)
    version = link.AccessVersion(version=has.version + 1, stamp=f"s{number}")
    table = b'{"users":[{"username":"u%d"}],"acls":[]}' % number
    driver.call(put_access=link.PutAccess(version=version, base=base, table=table))


def rebuilt(driver: EngineDriver, folder: Path) -> tuple[object, ...]:
    """What a copy of the stopped directory holds whose settings were made from the log alone."""
    copy = folder / "copy"
    config = replace(driver.broker.state.runtime.config, data_dir=copy)
    driver.stop()
    shutil.copytree(driver.data_dir, copy)
    driver.go_on()
    asyncio.run(rebuild.rebuild(config, offsets=False, settings=True))

    async def read() -> tuple[object, ...]:
        broker = await open_engine(config, VirtualClock())
        found = held(broker.state.catalog_state)
        await broker.close()
        return found

    return asyncio.run(read())
