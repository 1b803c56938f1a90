"""Does the judge of the failure table see what it is for? Each planted fault is found, and nothing
else."""

from chaos.events import Event
from chaos.judge import Row, Window, judge

WINDOW = Window("kill", "kill -9", 0.0, 5.0, 100.0)


def send(body: str, at_s: float, error: str = "") -> Event:
    return Event("sdk", "send", at_s, at_s, body, 0, error)


def receive(body: str, at_s: float, attempt: int = 1) -> Event:
    return Event("sdk", "receive", at_s, at_s, body, attempt, "")


def ack(body: str, at_s: float, error: str = "") -> Event:
    return Event("sdk", "ack", at_s, at_s, body, 0, error)


def row_of(*events: Event, copies: int = 1) -> Row:
    (row,) = judge(events, [WINDOW], lambda _: copies)
    return row


def test_what_came_is_not_lost_and_what_was_refused_may_be() -> None:
    row = row_of(send("sdk/n1/0", 1), receive("sdk/n1/0", 2), send("sdk/n1/1", 3, "gone"))
    assert row.clean
    assert (row.sent, row.received) == (1, 1)
    assert row.errors == {"sdk": {"send": 1}}


def test_a_message_that_never_came_is_lost() -> None:
    assert row_of(send("sdk/n1/0", 1)).lost == ["sdk/n1/0"]


def test_after_an_ack_it_comes_no_more() -> None:
    body = "sdk/n1/0"
    came = [send(body, 1), receive(body, 2), ack(body, 3)]
    assert row_of(*came).clean
    assert row_of(*came, receive(body, 4, 2)).repeated == [body]
    assert row_of(*came, receive(body, 2.5, 2)).clean, "before the ack was answered"
    refused = [send(body, 1), receive(body, 2), ack(body, 3, "expired"), receive(body, 4, 2)]
    assert row_of(*refused).clean


def test_two_copies_may_be_acked_once_each_and_not_a_third_time() -> None:
    body = "sdk/n1/0"
    twice = [send(body, 1), receive(body, 2), ack(body, 3), receive(body, 4), ack(body, 5)]
    assert row_of(*twice, copies=2).clean
    assert row_of(*twice, copies=2).stored_twice == 1
    assert row_of(*twice, copies=1).repeated == [body]
    assert row_of(*twice, receive(body, 6, 2), copies=2).repeated == [body]


def test_first_deliveries_of_a_message_group_are_in_order() -> None:
    bodies = [f"sdk/f1/{i}" for i in range(3)]
    in_order = [receive(body, i) for i, body in enumerate(bodies)]
    assert row_of(*in_order, receive(bodies[0], 5, 2)).clean, "a later one of the same is none"
    swapped = [receive(bodies[0], 1), receive(bodies[2], 2), receive(bodies[1], 3)]
    assert row_of(*swapped).disordered == ["sdk/f1/1 after 2"]
    free = [receive("sdk/n1/2", 2), receive("sdk/n1/1", 3)]
    assert row_of(*free).clean, "nobody promised an order"


def test_recovery_is_when_the_last_disturbance_is_over() -> None:
    row = row_of(
        *(send(f"sdk/n1/{i}", i) for i in range(1, 4)),
        send("sdk/n1/4", 5, "away"),
        send("sdk/n1/4", 9),
        *(send(f"sdk/n1/{i}", i) for i in range(10, 100)),
    )
    assert row.recovered_s == 9
    assert row.pause_s == 6
