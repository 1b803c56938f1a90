"""Who has not followed a reset: told where to go until it goes there. Others are left alone."""

from popmq_broker.core.groups.offsets import QueueKey
from popmq_broker.core.groups.pullers import Pullers

KEY, OTHER = QueueKey("g", "t", 0), QueueKey("g", "t", 1)


def test_who_pulled_before_the_reset_is_sent_there_until_it_goes() -> None:
    pullers = Pullers()
    assert pullers.sent_to(KEY, "old", 40, 40) is None
    pullers.reset(KEY, 10)
    assert pullers.is_behind(KEY, "old")
    assert pullers.sent_to(KEY, "old", 40, 10) == 10
    assert pullers.sent_to(KEY, "old", 40, 10) == 10, "the first answer may have been lost"
    assert pullers.sent_to(KEY, "old", 10, 10) is None
    assert not pullers.is_behind(KEY, "old")
    assert pullers.sent_to(KEY, "old", 40, 10) is None, "it may seek from now on"


def test_a_client_that_is_new_goes_where_it_likes() -> None:
    pullers = Pullers()
    pullers.reset(KEY, 10)
    assert pullers.sent_to(KEY, "new", 40, 10) is None
    assert not pullers.is_behind(KEY, "new")
    assert not pullers.is_behind(KEY, "never pulled")


def test_it_goes_to_what_others_have_committed_since() -> None:
    """A queue comes back to a consumer that had it before the reset: nothing is pulled twice."""
    pullers = Pullers()
    pullers.sent_to(KEY, "old", 40, 40)
    pullers.reset(KEY, 10)
    assert pullers.sent_to(KEY, "old", 40, 25) == 25
    assert pullers.sent_to(KEY, "old", 25, 25) is None


def test_other_queues_have_nothing_to_do_with_it() -> None:
    pullers = Pullers()
    pullers.sent_to(OTHER, "old", 40, 40)
    pullers.reset(KEY, 10)
    assert not pullers.is_behind(OTHER, "old")


def test_a_group_that_was_deleted_sends_nobody_anywhere() -> None:
    pullers = Pullers()
    pullers.sent_to(KEY, "old", 40, 40)
    pullers.reset(KEY, 10)
    pullers.forget(KEY)
    assert pullers.sent_to(KEY, "old", 40, 0) is None


def test_the_tables_are_bounded_and_forget_the_oldest() -> None:
    pullers = Pullers(pullers_max=2, resets_max=1)
    for name in ("a", "b", "c"):
        pullers.sent_to(KEY, name, 0, 0)
    assert len(pullers) == 2
    pullers.reset(KEY, 10)
    assert (pullers.is_behind(KEY, "a"), pullers.is_behind(KEY, "c")) == (False, True)
    pullers.reset(OTHER, 10)
    assert not pullers.is_behind(KEY, "c")
