"""Who may pull a queue: the table of core/groups/access_lock.py, and what no history may do."""

from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.groups.access_lock import Access, AccessLock, Owner
from popmq_broker.core.groups.members import Members

HOLD_MS = 1_000
IDLE_POLLS = 3


class Queue:
    """A queue with its lock, as the broker uses it."""

    def __init__(self) -> None:
        self.lock = AccessLock()
        self.committed = 0
        self.now_ms = 10_000
        self.asked = -1

    def ask(self, client_id: str, offset: int = -1) -> Access:
        """-1: some offset that was not asked for before."""
        self.asked -= 1
        offset = self.asked if offset == -1 else offset
        return self.lock.ask(
            client_id, offset, self.committed, self.now_ms, hold_ms=HOLD_MS, idle_polls=IDLE_POLLS
        )

    def pull(self, client_id: str, to: int | None = None) -> Access:
        access = self.ask(client_id)
        if access is not Access.REFUSED:
            owner = self.lock.began()
            assert owner is not None
            assert self.lock.ended(owner, self.now_ms, to)
        return access

    def owner(self) -> str:
        assert self.lock.owner is not None
        return self.lock.owner.client_id


def test_the_first_who_asks_is_the_owner_and_goes_on() -> None:
    queue = Queue()
    assert queue.pull("a", 10) is Access.TAKEN
    assert queue.pull("a", 20) is Access.GRANTED


def test_another_waits_while_something_is_outstanding() -> None:
    queue = Queue()
    queue.pull("a", 10)
    for _ in range(10):
        assert queue.pull("b") is Access.REFUSED
    queue.committed = 9
    assert queue.pull("b") is Access.REFUSED


def test_another_takes_over_when_nothing_is_outstanding_for_some_polls() -> None:
    queue = Queue()
    queue.pull("a", 10)
    queue.committed = 10
    assert [queue.pull("b") for _ in range(4)] == [Access.REFUSED] * 3 + [Access.TAKEN]
    assert queue.owner() == "b"
    assert queue.pull("a") is Access.REFUSED


def test_an_owner_that_goes_on_is_not_overtaken() -> None:
    queue = Queue()
    for to in range(10, 100, 10):
        queue.pull("a", to)
        queue.committed = to
        assert queue.pull("b") is Access.REFUSED


def test_a_silent_owner_loses_the_queue_and_one_that_waits_in_a_poll_does_not() -> None:
    queue = Queue()
    queue.pull("a", 10)
    queue.now_ms += HOLD_MS
    assert queue.ask("b") is Access.REFUSED
    queue.now_ms += 1
    assert queue.ask("b") is Access.TAKEN

    queue = Queue()
    queue.pull("a", 10)
    assert queue.ask("a") is Access.GRANTED
    owner = queue.lock.began()
    assert owner is not None
    queue.now_ms += 100 * HOLD_MS
    assert queue.ask("b") is Access.REFUSED
    assert queue.lock.ended(owner, queue.now_ms, None)
    assert queue.ask("b") is Access.REFUSED


def test_who_leaves_gives_the_queue_away_at_once() -> None:
    queue = Queue()
    queue.pull("a", 10)
    assert not queue.lock.leave("b")
    assert queue.lock.leave("a")
    assert queue.pull("b") is Access.TAKEN


def test_what_is_committed_goes_first_until_the_new_owner_knows() -> None:
    queue = Queue()
    assert queue.ask("a", 5) is Access.TAKEN
    assert queue.ask("a", 5) is Access.TAKEN  # the answer that corrected it was lost
    assert queue.ask("a", 9) is Access.GRANTED
    assert queue.ask("a", 5) is Access.GRANTED  # it went back on purpose


def test_a_poll_that_lost_its_queue_hands_out_nothing() -> None:
    queue = Queue()
    assert queue.ask("a") is Access.TAKEN
    owner = queue.lock.began()
    assert owner is not None
    queue.lock.leave("a")
    assert queue.ask("b") is Access.TAKEN
    assert not queue.lock.ended(owner, queue.now_ms, 10)
    assert queue.owner() == "b"


steps = st.lists(
    st.tuples(
        st.sampled_from(["pull", "commit", "time", "leave"]),
        st.sampled_from("abc"),
        st.integers(1, 5),
    ),
    max_size=80,
)


@given(steps)
def test_nothing_outstanding_is_handed_to_another_while_its_owner_is_heard(
    history: list[tuple[str, str, int]],
) -> None:
    queue, read, heard_ms = Queue(), {"": 0}, 0
    for what, client, number in history:
        owner: Owner | None = queue.lock.owner
        if what == "pull":
            access = queue.ask(client)
            if access is Access.REFUSED:
                assert owner is not None
                assert owner.client_id != client
                continue
            if access is Access.TAKEN and owner is not None:
                silent = queue.now_ms - heard_ms > HOLD_MS
                assert silent or read["at"] <= queue.committed, "handed out twice"
            begin = queue.committed if access is Access.TAKEN else read["at"]
            read["at"], heard_ms = begin + number, queue.now_ms
            began = queue.lock.began()
            assert began is not None
            queue.lock.ended(began, queue.now_ms, read["at"])
        elif what == "commit" and owner is not None and owner.client_id == client:
            queue.committed = max(queue.committed, min(read["at"], queue.committed + number))
        elif what == "time":
            queue.now_ms += number * 300
        elif what == "leave":
            queue.lock.leave(client)


def test_members_come_and_go() -> None:
    members = Members()
    assert members.join("g", "t", "b", 0, 100) == ["b"]
    assert members.join("g", "t", "a", 50, 100) == ["a", "b"]
    assert members.join("g", "other", "a", 50, 100) == ["a"]
    assert members.join("g", "t", "a", 100, 100) == ["a"]
    members.leave("a", "g", "other")
    assert len(members) == 1
    members.leave("a")
    assert len(members) == 0
    members.join("g", "t", "c", 0, 100)
    members.forget_silent(100)
    assert len(members) == 0
