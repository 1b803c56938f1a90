"""Windows that a client gives for all its streams, and the answers that they set free."""

import pytest
from harness.http2 import shared, turns
from harness.http2_caller import OTHER_HOST, Caller, greeted

from popmq_proxy.front.http2 import connection, wire
from popmq_proxy.front.http2.budgets import scheduler as turns_module
from popmq_proxy.front.http2.budgets.scheduler import SLICE_S
from popmq_proxy.front.http2.flow_control import outgoing
from popmq_proxy.front.http2.shared import Shared
from popmq_proxy.front.http2.wire import Error, Setting


async def blocked(among: Shared, streams: int) -> Caller:
    """A client whose answers wait for their windows."""
    caller = await greeted(among)
    await caller.give(wire.settings({Setting.INITIAL_WINDOW_SIZE: 0}))
    for number in range(streams):
        await caller.give(caller.request(2 * number + 1, b"hello"))
    assert caller.connection.outgoing.held_up_count == streams
    caller.transport.take()
    return caller


def windows(*sizes: int) -> bytes:
    pairs = [wire.SETTING.pack(Setting.INITIAL_WINDOW_SIZE, size) for size in sizes]
    return wire.frame(wire.SETTINGS, 0, 0, b"".join(pairs))


async def test_of_several_windows_in_a_frame_the_last_one_counts() -> None:
    caller = await blocked(shared(), 1)
    await caller.give(windows(5, 3, 0))
    assert caller.frames(1) == []
    await caller.give(windows(1, 0, 3))
    assert caller.frames(1) == [(wire.DATA, 0, b"hel")]


@pytest.mark.parametrize("sizes", [(wire.WINDOW_MAX,), (wire.WINDOW_MAX, 0), (1 << 31, 0)])
async def test_a_window_that_settings_push_beyond_its_limit_breaks_the_connection(
    sizes: tuple[int, ...],
) -> None:
    caller = await greeted(shared())
    await caller.give(caller.head(1), windows(0), wire.window_update(1, 1))
    await caller.give(windows(*sizes))
    assert caller.goaway_code() == Error.FLOW_CONTROL_ERROR


async def test_a_window_of_a_stream_that_has_ended_limits_nothing() -> None:
    caller = await greeted(shared())
    await caller.give(caller.head(1), wire.window_update(1, 1 << 30))
    await caller.give(wire.reset(1, Error.CANCEL), caller.head(3), wire.window_update(3, 5))
    await caller.give(windows(wire.WINDOW_MAX - 5))
    assert caller.goaway_code() is None


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has time for hardly anything."""
    now_s = 1_000.0

    def clock() -> float:
        nonlocal now_s
        now_s += SLICE_S / 4
        return now_s

    for module in (connection, outgoing, turns_module):
        monkeypatch.setattr(module, "monotonic", clock)


@pytest.mark.usefixtures("slow")
async def test_answers_that_a_window_sets_free_leave_in_several_turns() -> None:
    """What others send meanwhile does not wait until all have left."""
    among = shared()
    caller, other = await blocked(among, 200), await greeted(among, OTHER_HOST)
    before_s = caller.connection._worker.use.used_s
    await caller.give(windows(100))
    assert await other.is_served()
    assert caller.connection.outgoing.held_up_count > 100
    assert not caller.transport.reads, "nor are more frames of this client read"
    assert caller.connection._worker.use.used_s - before_s > SLICE_S, "its connection had the time"
    await turns(2_000)
    assert not caller.connection.outgoing.held_up_count
    assert caller.transport.reads


@pytest.mark.usefixtures("slow")
async def test_frames_that_come_in_pieces_while_answers_leave_are_whole() -> None:
    """As TLS hands them over: it may have more, though nothing more is read from the socket."""
    caller = await blocked(shared(), 200)
    ping = wire.frame(wire.PING, 0, 0, bytes(8))
    await caller.give(windows(100) + ping[:5], ping[5:12], ping[12:])
    assert caller.connection.outgoing.held_up_count > 100
    await turns(2_000)
    assert (wire.PING, wire.ACK, bytes(8)) in caller.frames(0)
