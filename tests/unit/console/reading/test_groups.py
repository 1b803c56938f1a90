"""Are figures of groups only shown where somebody told them?"""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.groups import (
    group_lines,
    settings_of,
    topics_of_group,
    uses_of_topic,
)
from popmq_readings.cluster_view import GroupRow

NOW = 1_000_000


def broker(*uses: admin.GroupUse) -> admin.BrokerState:
    return admin.BrokerState(name="a", now_ms=NOW, started_ms=1, groups=uses)


def use(group: str, lag: int, **more: int) -> admin.GroupUse:
    return admin.GroupUse(group=group, topic="t", lag=lag, **more)


def test_a_group_that_nobody_speaks_of_has_no_figures() -> None:
    (line,) = group_lines([admin.Group(name="g")], admin.InspectResponse())
    assert (line.lag, line.in_flight, line.waiting_polls, line.state) == (None, None, None, "")
    (unknown,) = group_lines([admin.Group(name="g")], None)
    assert unknown.lag is None


def test_figures_of_all_brokers_are_added() -> None:
    state = admin.InspectResponse(
        brokers=[
            broker(use("g", 3, in_flight=1, waiting_polls=1, last_receive_ms=NOW - 5)),
            broker(use("g", 4, waiting_polls=2, last_receive_ms=NOW - 9), use("gone", 1)),
        ]
    )
    (line,) = group_lines([admin.Group(name="g")], state)
    assert (line.lag, line.in_flight, line.waiting_polls) == (7, 1, 3)
    assert (line.last_receive_ms, line.topics, line.state) == (NOW - 5, ["t"], "behind")


def test_a_group_is_stuck_when_nobody_asks() -> None:
    silent = use("g", 2, last_receive_ms=NOW - 100_000)
    assert group_lines([admin.Group(name="g")], _one(silent))[0].state == "stuck"
    held = use("g", 2, in_flight=2, last_receive_ms=NOW - 100_000)
    assert group_lines([admin.Group(name="g")], _one(held))[0].state == "idle"
    waiting = use("g", 2, waiting_polls=1, last_receive_ms=NOW - 100_000)
    assert group_lines([admin.Group(name="g")], _one(waiting))[0].state == "behind"


def _one(found: admin.GroupUse) -> admin.InspectResponse:
    return admin.InspectResponse(brokers=[broker(found)])


def test_retries_belong_to_the_topic_that_they_are_of() -> None:
    queues = [
        admin.GroupQueue(broker="a", topic="t", queue_id=0, lag=2, in_flight=1),
        admin.GroupQueue(broker="a", topic="%RETRY%g_t", queue_id=0, lag=3),
        admin.GroupQueue(broker="a", topic="other", queue_id=0, lag=9),
    ]
    first, second = topics_of_group(queues, [], "g")
    assert (first.topic, second.topic) == ("other", "t")
    assert (second.lag, second.in_flight, second.figures) == (5, 1, None)
    told = GroupRow("g", "t", ready=4, delayed=7)
    assert topics_of_group(queues, [told], "g")[0].lag == 11


def test_groups_of_a_topic() -> None:
    assert uses_of_topic(None, "t") is None
    (row,) = uses_of_topic(_one(use("g", 5, in_flight=2)), "t") or []
    assert (row.group, row.lag, row.in_flight, row.ready) == ("g", 5, 2, 3)
    assert uses_of_topic(_one(use("g", 5)), "another") == []


def test_an_owner_is_a_setting_of_groups_that_have_one() -> None:
    owned, nobodys = admin.Group(name="a", owner="payments"), admin.Group(name="b")
    assert [line.owner for line in group_lines([owned, nobodys], None)] == ["payments", ""]
    assert settings_of(owned, "1s")["owner"] == "payments"
    assert "owner" not in settings_of(nobodys, "1s")
