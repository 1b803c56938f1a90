"""Waiting polls: one message wakes one, filters are looked at, tables return to zero."""

import asyncio
import time
from functools import partial

import pytest

from popmq_broker.core.filters.filter import parse_tags
from popmq_broker.core.store.queue_entry import tags_code
from popmq_broker.engine.journal.long_polls import GroupTopic, PollDeadline, WaitingPolls
from popmq_common.errors import TooManyRequests

KEY = GroupTopic("g", "t")


async def polls(long_polls: WaitingPolls, *expressions: str) -> "list[asyncio.Task[bool]]":
    tasks = [
        asyncio.create_task(long_polls.wait(KEY, parse_tags(expression), 5))
        for expression in expressions
    ]
    await asyncio.sleep(0)
    return tasks


def done(tasks: "list[asyncio.Task[bool]]") -> list[bool]:
    return [task.done() for task in tasks]


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_one_arrival_wakes_the_oldest_poll_alone() -> None:
    long_polls = WaitingPolls(10)
    tasks = await polls(long_polls, "*", "*")
    long_polls.arrived("t", [0])
    await settle()
    assert done(tasks) == [True, False]
    long_polls.wake_next(KEY)
    await settle()
    assert done(tasks) == [True, True]
    assert long_polls.count == 0


async def test_a_poll_whose_filter_does_not_match_is_passed_over() -> None:
    long_polls = WaitingPolls(10)
    tasks = await polls(long_polls, "A", "B")
    long_polls.arrived("t", [tags_code("B")])
    await settle()
    assert done(tasks) == [False, True]
    long_polls.wake_all("t")
    assert await tasks[0]


async def test_an_arrival_in_the_retry_topic_wakes_its_group() -> None:
    long_polls = WaitingPolls(10)
    tasks = await polls(long_polls, "*")
    long_polls.arrived("%RETRY%other_t", [0])
    await settle()
    assert done(tasks) == [False]
    long_polls.arrived("%RETRY%g_t", [0])
    assert await tasks[0]


async def test_a_poll_ends_when_its_time_is_over_and_leaves_nothing() -> None:
    long_polls = WaitingPolls(10)
    assert not await long_polls.wait(KEY, None, 0.01)
    assert long_polls.count == 0
    long_polls.arrived("t", [0])  # nobody is there


async def test_the_bound_is_a_typed_refusal() -> None:
    long_polls = WaitingPolls(1)
    (task,) = await polls(long_polls, "*")
    with pytest.raises(TooManyRequests, match="waiting polls"):
        await long_polls.wait(KEY, None, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert long_polls.count == 0


async def test_in_a_steady_stream_arrivals_gather_and_share_a_poll() -> None:
    long_polls = WaitingPolls(10, gap_ms=300)
    tasks = await polls(long_polls, "*", "*", "*")
    long_polls.arrived("t", [0])
    long_polls.arrived("t", [0])
    long_polls.arrived("t", [0])
    await settle()
    assert done(tasks) == [True, False, False]
    assert await asyncio.wait_for(tasks[1], 1)
    await settle()
    assert done(tasks) == [True, True, False]
    tasks[2].cancel()


async def test_a_stream_goes_on_gathering_and_ends_with_the_gap_that_brought_none() -> None:
    long_polls = WaitingPolls(10, gap_ms=100, gap_ms_max=60_000)
    tasks = await polls(long_polls, "*", "*")
    for _ in range(3):
        long_polls.arrived("t", [0])
    await asyncio.sleep(0.15)  # in the second gap
    assert done(tasks) == [True, False]
    long_polls.arrived("t", [0, 0])
    await asyncio.sleep(0.1)  # in the third, in which none comes
    assert done(tasks) == [True, False]
    assert await asyncio.wait_for(tasks[1], 1)


async def test_a_stream_that_does_not_end_waits_no_longer_than_told() -> None:
    long_polls = WaitingPolls(10, gap_ms=10, gap_ms_max=30)
    tasks = await polls(long_polls, "*", "*")
    began = time.perf_counter()
    long_polls.arrived("t", [0])
    for _ in range(300):
        if tasks[1].done():
            break
        long_polls.arrived("t", [0])
        await asyncio.sleep(0.003)
    assert 0.025 <= time.perf_counter() - began < 0.5


async def test_as_many_as_a_receive_takes_wait_for_no_further_gap() -> None:
    long_polls = WaitingPolls(10, gap_ms=10, gap_ms_max=60_000)
    tasks = await polls(long_polls, "*", "*")
    long_polls.arrived("t", [0])
    long_polls.arrived("t", [0] * 32)
    assert await asyncio.wait_for(tasks[1], 1)


async def test_what_is_left_behind_is_not_kept_from_the_next_poll() -> None:
    """A consumer that lags is as fast as it asks: it does not wait for arrivals to gather."""
    long_polls = WaitingPolls(10, gap_ms=60_000)
    (task,) = await polls(long_polls, "*")
    long_polls.arrived("t", [0])
    assert await task
    long_polls.wake_next(KEY)
    assert not long_polls.lingers(KEY)
    assert long_polls.is_empty


async def test_an_arrival_that_nobody_awaits_opens_no_gap() -> None:
    long_polls = WaitingPolls(10, gap_ms=60_000)
    long_polls.arrived("t", [0])
    assert not long_polls.lingers(KEY)


async def test_a_poll_that_comes_while_arrivals_gather_is_woken_at_the_end_of_the_gap() -> None:
    """Also when nothing more arrived: it has not looked yet, and something may have been left."""
    long_polls = WaitingPolls(10, gap_ms=10)
    (first,) = await polls(long_polls, "*")
    long_polls.arrived("t", [0])
    assert await first
    assert long_polls.lingers(KEY)
    assert await long_polls.wait(KEY, None, 5, looked=False)


async def test_a_gathered_arrival_still_looks_at_filters() -> None:
    long_polls = WaitingPolls(10, gap_ms=5)
    tasks = await polls(long_polls, "*", "B")
    long_polls.arrived("t", [0])
    long_polls.arrived("t", [tags_code("A")])
    await asyncio.sleep(0.03)
    assert done(tasks) == [True, False]
    tasks[1].cancel()


async def test_a_poll_woken_in_the_moment_its_time_is_over_looks_once_more() -> None:
    long_polls = WaitingPolls(10)
    poll = asyncio.create_task(long_polls.wait(KEY, None, 0.01))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.005, long_polls.arrived, "t", [0])
    time.sleep(0.02)  # noqa: ASYNC251 - both timers are due in one turn of the loop
    assert await poll
    assert long_polls.is_empty


async def test_a_woken_poll_that_is_cancelled_hands_its_wake_on() -> None:
    long_polls = WaitingPolls(10)
    tasks = await polls(long_polls, "*", "*")
    long_polls.arrived("t", [0])
    tasks[0].cancel()
    assert await asyncio.wait_for(tasks[1], 1)
    assert long_polls.count == 0


async def test_a_poll_that_was_woken_for_nothing_keeps_its_place() -> None:
    long_polls = WaitingPolls(10)
    tasks = await polls(long_polls, "*", "*")
    long_polls.wake_next(KEY)
    assert await tasks[0]
    again = asyncio.create_task(long_polls.wait(KEY, None, 5, again=True))
    await asyncio.sleep(0)
    long_polls.arrived("t", [0])
    await settle()
    assert done([again, tasks[1]]) == [True, False]
    tasks[1].cancel()


async def test_a_group_may_not_take_all_the_places() -> None:
    long_polls = WaitingPolls(10, group_count_max=2)
    tasks = await polls(long_polls, "*", "*")
    with pytest.raises(TooManyRequests, match="waiting polls of group g"):
        await long_polls.wait(GroupTopic("g", "another"), None, 1)
    other = asyncio.create_task(long_polls.wait(GroupTopic("h", "t"), None, 5))
    await asyncio.sleep(0)
    long_polls.wake_all("t")
    assert await asyncio.gather(*tasks, other) == [True, True, True]
    assert long_polls.is_empty


async def test_trap30_ten_thousand_polls_and_the_one_that_wants_the_message_is_woken() -> None:
    """At once, whoever came before it: no scan of the others, no wake that finds nothing."""
    long_polls = WaitingPolls(20_000)
    tasks = await polls(long_polls, *(f"tag-{i}" for i in range(10_000)))
    began = time.perf_counter()
    for i in reversed(range(10_000)):
        long_polls.arrived("t", [tags_code(f"tag-{i}")])
        if i == 5_000:
            await settle()
            assert sum(done(tasks)) == 5_000
    seconds = time.perf_counter() - began
    assert all(await asyncio.gather(*tasks))
    assert seconds < 2, f"{seconds:.1f} s for 10,000 wakes"  # a scan takes 50 million steps
    assert long_polls.is_empty


async def test_t30_ten_thousand_short_lived_groups_leave_nothing() -> None:
    long_polls = WaitingPolls(20_000, gap_ms=1)
    keys = [GroupTopic(f"g{i}", f"t{i % 100}") for i in range(10_000)]
    tasks = [asyncio.create_task(long_polls.wait(key, None, 5)) for key in keys]
    await asyncio.sleep(0)
    for i in range(0, 100, 2):
        long_polls.arrived(f"t{i}", [0])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.005)  # the gap
    assert long_polls.is_empty


async def test_a_poll_that_waits_here_goes_before_a_watch_for_polls_elsewhere() -> None:
    long_polls = WaitingPolls(10)
    watch = asyncio.create_task(long_polls.watch(KEY, None))
    await asyncio.sleep(0)
    (poll,) = await polls(long_polls, "*")
    long_polls.arrived("t", [0])
    await settle()
    assert (poll.done(), watch.done()) == (True, False)
    long_polls.arrived("t", [0])
    await settle()
    assert watch.done()
    assert long_polls.is_empty


async def test_a_watch_is_told_what_no_poll_here_wants() -> None:
    long_polls = WaitingPolls(10)
    (poll,) = await polls(long_polls, "A")
    watch = asyncio.create_task(long_polls.watch(KEY, parse_tags("B")))
    await asyncio.sleep(0)
    long_polls.arrived("t", [tags_code("B")])
    await settle()
    assert (poll.done(), watch.done()) == (False, True)
    poll.cancel()


async def test_a_watch_that_is_given_up_when_it_is_told_tells_the_next() -> None:
    long_polls = WaitingPolls(10)
    watches = [asyncio.create_task(long_polls.watch(KEY, None)) for _ in range(2)]
    await asyncio.sleep(0)
    long_polls.arrived("t", [0])
    watches[0].cancel()
    await settle()
    assert watches[1].done()
    assert long_polls.is_empty


async def test_what_ends_polls_ends_watches_too() -> None:
    long_polls = WaitingPolls(10)
    for end in (partial(long_polls.wake_all, "t"), partial(long_polls.wake_group, "g")):
        watch = asyncio.create_task(long_polls.watch(KEY, parse_tags("A")))
        await asyncio.sleep(0)
        end()
        await settle()
        assert watch.done()


async def test_watches_have_a_bound() -> None:
    long_polls = WaitingPolls(1)
    watch = asyncio.create_task(long_polls.watch(KEY, None))
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequests):
        await long_polls.watch(KEY, None)
    watch.cancel()
    await settle()
    assert long_polls.is_empty


@pytest.mark.parametrize("waits", [True, False])
async def test_a_poll_that_is_cut_short_looks_once_more(*, waits: bool) -> None:
    """Now, or when it would begin to wait."""
    long_polls = WaitingPolls(10)
    deadline = PollDeadline(asyncio.get_running_loop().time() + 60)
    task = asyncio.create_task(long_polls.wait(KEY, None, 60, deadline=deadline))
    if waits:
        await asyncio.sleep(0)
    long_polls.cut_short(KEY, deadline)
    assert deadline.deadline_s == 0
    if waits:
        assert await task
        assert long_polls.is_empty
    task.cancel()
