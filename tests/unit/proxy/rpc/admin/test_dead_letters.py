"""Dead letters of two brokers: one redrive and one purge go over both, each message once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC
from harness.proxy import ProxyDriver

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, GroupNotFound, Unavailable
from popmq_internal.v1 import link_pb2 as link

BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def away() -> set[str]:
    return set()


@pytest.fixture
def proxy(tmp_path: Path, away: set[str]) -> Iterator[ProxyDriver]:
    first = EngineDriver(tmp_path / "a", name="broker-a")
    second = EngineDriver(tmp_path / "b", like=first, name="broker-b")
    for engine in (first, second):
        engine.make(queues=1)
    yield ProxyDriver(first, second, away=away)
    second.close()
    first.close()


def give_up(proxy: ProxyDriver, broker: str, *bodies: str) -> None:
    engine = proxy.engine(broker)
    for body in bodies:
        engine.call(**send_body(body))
    handles = [one.handle for one in engine.pop()]
    engine.nack(*handles, kind=link.NACK_KIND_FATAL, reason="no order")


def redrive(
    proxy: ProxyDriver, cursor: str = "", *, count_max: int = 100, dry_run: bool = False
) -> admin.RedriveDeadLettersResponse:
    which = admin.RedriveDeadLettersRequest(group=GROUP, cursor=cursor, count_max=count_max)
    request = admin.RedriveRequest(which=which, dry_run=dry_run)
    response: admin.RedriveDeadLettersResponse = proxy.admin("Redrive", request)
    return response


def redrive_all(
    proxy: ProxyDriver, cursor: str = "", *, count_max: int = 100, dry_run: bool = False
) -> tuple[int, int]:
    """(sent, already), page after page."""
    sent = already = 0
    while True:
        done = redrive(proxy, cursor, count_max=count_max, dry_run=dry_run)
        sent, already, cursor = sent + done.sent, already + done.already, done.cursor
        if not cursor:
            return sent, already


def purge(
    proxy: ProxyDriver, *until: admin.PurgedQueue, dry_run: bool = False
) -> list[admin.PurgedQueue]:
    request = admin.PurgeDeadLettersRequest(group=GROUP, until=until, dry_run=dry_run)
    return list(proxy.admin("PurgeDeadLetters", request).queues)


def left(proxy: ProxyDriver) -> dict[str, list[str]]:
    """The dead letters of each broker that can be listed."""
    return {
        broker: [
            letter.message_id.removeprefix("id-")
            for letter in proxy.engine(broker).dead_letters().letters
        ]
        for broker in BROKERS
    }


def come_again(proxy: ProxyDriver) -> list[str]:
    return sorted(one.body.decode() for broker in BROKERS for one in proxy.engine(broker).pop())


@pytest.mark.parametrize("count_max", [1, 2, 100])
def test_a_redrive_goes_over_both_brokers(proxy: ProxyDriver, count_max: int) -> None:
    give_up(proxy, "broker-a", "a1", "a2", "a3")
    give_up(proxy, "broker-b", "b1", "b2")
    assert redrive_all(proxy, count_max=count_max, dry_run=True) == (5, 0)
    assert come_again(proxy) == []
    assert redrive_all(proxy, count_max=count_max) == (5, 0)
    assert come_again(proxy) == ["a1", "a2", "a3", "b1", "b2"]
    assert redrive_all(proxy, count_max=count_max) == (0, 5)
    assert come_again(proxy) == []


def test_the_cursor_says_where_to_go_on(proxy: ProxyDriver) -> None:
    give_up(proxy, "broker-a", "a1", "a2")
    give_up(proxy, "broker-b", "b1")
    first = redrive(proxy, count_max=1)
    assert (first.sent, first.cursor.partition(":")[0]) == (1, "broker-a")
    second = redrive(proxy, first.cursor)
    assert (second.sent, second.cursor.partition(":")[0]) == (1, "broker-b")
    third = redrive(proxy, second.cursor)
    assert (third.sent, third.cursor) == (1, "")
    with pytest.raises(BadRequest, match="broker-z, which is gone"):
        redrive(proxy, "broker-z:0:0")


def test_what_fails_again_meanwhile_is_left_alone(proxy: ProxyDriver) -> None:
    """Else a handler that fails at once would keep one redrive busy for ever."""
    give_up(proxy, "broker-a", "a1", "a2")
    give_up(proxy, "broker-b", "b1")
    done = redrive(proxy, count_max=1)
    give_up(proxy, "broker-a")  # a1 came again, and failed again
    assert redrive_all(proxy, done.cursor) == (2, 0)
    assert come_again(proxy) == ["a2", "b1"]
    assert redrive_all(proxy) == (1, 3), "the next one takes it"


def test_a_broker_that_is_away_ends_the_call_and_nothing_is_sent_twice(
    proxy: ProxyDriver, away: set[str]
) -> None:
    give_up(proxy, "broker-a", "a1")
    give_up(proxy, "broker-b", "b1")
    done = redrive(proxy)
    away.add("broker-b")
    with pytest.raises(Unavailable):
        redrive(proxy, done.cursor)
    away.clear()
    assert redrive_all(proxy) == (1, 1)
    assert come_again(proxy) == ["a1", "b1"]


@pytest.mark.parametrize(("late", "other"), [BROKERS, BROKERS[::-1]])
def test_a_broker_that_joined_late_has_none(proxy: ProxyDriver, late: str, other: str) -> None:
    """It does not know the group."""
    proxy.engine(late).call(delete_group=link.DeleteGroup(group=GROUP))
    give_up(proxy, other, "m")
    assert redrive_all(proxy) == (1, 0)
    assert [one.body for one in proxy.engine(other).pop()] == [b"m"]
    assert [queue.broker for queue in purge(proxy)] == [other]


def test_a_group_that_no_broker_knows(proxy: ProxyDriver) -> None:
    for broker in BROKERS:
        proxy.engine(broker).call(delete_group=link.DeleteGroup(group=GROUP))
    with pytest.raises(GroupNotFound):
        redrive(proxy)
    with pytest.raises(GroupNotFound):
        purge(proxy)


def test_a_purge_deletes_what_was_counted_and_no_more(proxy: ProxyDriver) -> None:
    """What becomes a dead letter between question and answer stays, at either broker."""
    give_up(proxy, "broker-a", "a1", "a2")
    planned = purge(proxy, dry_run=True)
    assert [(queue.broker, queue.count) for queue in planned] == [("broker-a", 2), ("broker-b", 0)]
    give_up(proxy, "broker-a", "a3")
    give_up(proxy, "broker-b", "b1")
    done = purge(proxy, *planned)
    assert [(queue.broker, queue.count) for queue in done] == [("broker-a", 2)]
    assert left(proxy) == {"broker-a": ["a3"], "broker-b": ["b1"]}
    assert [queue.count for queue in purge(proxy)] == [1, 1]
    assert left(proxy) == {"broker-a": [], "broker-b": []}
    assert redrive_all(proxy) == (0, 0)


def test_a_purge_that_a_broker_misses_is_done_by_the_next(
    proxy: ProxyDriver, away: set[str]
) -> None:
    for broker in BROKERS:
        give_up(proxy, broker, "m")
    away.add("broker-b")
    with pytest.raises(Unavailable):
        purge(proxy)
    away.clear()
    assert left(proxy) == {"broker-a": [], "broker-b": ["m"]}
    assert [queue.count for queue in purge(proxy)] == [0, 1]


def test_only_the_group_itself_gets_what_is_redriven(proxy: ProxyDriver) -> None:
    other = link.GroupConfig(name="other", max_attempts=16, consume_from="LAST")
    for broker in BROKERS:
        proxy.engine(broker).call(put_group=link.PutGroup(group=other))
        start = link.FixStart(group="other", topic=TOPIC, at_ms=1, is_now=True)
        proxy.engine(broker).call(fix_start=start)
        give_up(proxy, broker, broker)
        end = link.ResetOffsets(group="other", topic=TOPIC, at=link.OFFSET_AT_MAX)
        proxy.engine(broker).call(reset_offsets=end)
    pop = link.Pop(group="other", topic=TOPIC, batch_size=32, invisible_ms=10_000)
    assert redrive_all(proxy) == (2, 0)
    for broker in BROKERS:
        assert not proxy.engine(broker).call(pop=pop).pop.messages
    assert come_again(proxy) == ["broker-a", "broker-b"]
