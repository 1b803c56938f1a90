"""Which sends wait for others, and which would wait in vain?"""

from heapq import heapify, heappop
from itertools import pairwise

from popmq_proxy.core.routing.linger import Linger

WAIT_MS = 5


def waits(gathering: Linger, under_way: int, *, since_ms: int, until_ms: int) -> list[float]:
    """In ms, of sends that come one a millisecond."""
    now_ms = range(since_ms, until_ms)
    return [gathering.wait_s(now / 1000, under_way) * 1000 for now in now_ms]


def busy() -> Linger:
    """Behind it: two tenths of a second with a send a millisecond, up to three under way."""
    gathering = Linger(WAIT_MS)
    waits(gathering, 3, since_ms=0, until_ms=200)
    return gathering


def test_a_send_in_a_steady_stream_waits() -> None:
    assert set(waits(busy(), 1, since_ms=200, until_ms=300)) == {WAIT_MS}


def test_nobody_waits_while_few_come() -> None:
    gathering = Linger(WAIT_MS)
    gathering.wait_s(0, 3)
    assert not any(gathering.wait_s(now_ms / 1000, 1) for now_ms in range(0, 10_000, 3))


def test_nobody_waits_when_all_clients_do_already() -> None:
    gathering = busy()
    assert gathering.wait_s(0.2, 2)
    assert not gathering.wait_s(0.2, 3)
    assert not gathering.wait_s(0.2, 4)


def test_a_client_alone_never_waits_however_fast_it_sends() -> None:
    assert not any(waits(Linger(WAIT_MS), 1, since_ms=0, until_ms=1_000))


def test_the_first_after_a_pause_does_not_wait() -> None:
    gathering = busy()
    assert not any(waits(gathering, 1, since_ms=400, until_ms=500))


def test_clients_that_are_gone_are_waited_for_no_longer_than_two_tenths_of_a_second() -> None:
    gathering = busy()
    found = waits(gathering, 2, since_ms=200, until_ms=500)
    assert all(found[:100])
    assert not any(found[200:])


def test_with_a_time_of_0_nobody_waits() -> None:
    gathering = Linger(0)
    for under_way in (3, 1):
        assert not any(waits(gathering, under_way, since_ms=0, until_ms=500))


def test_clients_that_send_when_they_are_answered_go_together() -> None:
    """Four, each within a millisecond of its answer, which takes the broker two: the last of them
    takes the others along, and the time limit, a second here, plays no part."""
    gathering, under_way = Linger(1_000), 0
    gathered = 0
    left: list[tuple[float, int]] = []
    events = [(0.0, 1)] * 4  # (when, how many more are under way)
    while len(left) < 400:
        heapify(events)
        now_s, more = heappop(events)
        under_way += more
        if more < 0:
            events.append((now_s + 0.00025 * (1 + len(events) % 4), 1))
            continue
        gathered += 1
        if gathering.wait_s(now_s, under_way) == 0:
            events += [(now_s + 0.002, -1)] * gathered
            left.append((now_s, gathered))
            gathered = 0
    assert {number for _, number in left[200:]} == {4}
    assert max(after - before for (before, _), (after, _) in pairwise(left)) < 0.01
