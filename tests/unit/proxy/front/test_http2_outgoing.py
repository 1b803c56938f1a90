"""When answers leave: those of a turn together, a large one at once and whole."""

import pytest
from harness.transport import Writes

from popmq_proxy.front.http2.connection import Connection, Limits
from popmq_proxy.front.http2.outgoing import EAGER_BYTES, Outgoing
from popmq_proxy.front.http2.stream import Stream


async def never_called(*_: object) -> None: ...


def stream(number: int) -> Stream:
    connection = Connection(never_called, Limits(), ("1.2.3.4", 5), lambda _: None)
    return Stream(connection, number, 65_535, {})


@pytest.mark.parametrize("last_bytes", [0, 1, 20_000])
async def test_the_end_of_a_large_answer_does_not_wait_for_other_answers(last_bytes: int) -> None:
    transport = Writes()
    outgoing = Outgoing(transport)
    outgoing.whole(stream(1), b"head", bytes(EAGER_BYTES + last_bytes), b"the end")
    (written,) = transport.writes
    assert written.endswith(b"the end")


async def test_small_answers_of_a_turn_leave_together() -> None:
    transport = Writes()
    outgoing = Outgoing(transport)
    for number in (1, 3):
        outgoing.whole(stream(number), b"head", b"body", b"tail")
    assert not transport.writes
    outgoing.flush()
    (written,) = transport.writes
    assert written.count(b"body") == 2
