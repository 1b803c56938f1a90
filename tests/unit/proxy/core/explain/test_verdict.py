"""Facts → verdict: every state can be reached, and no combination of facts is left without one."""

from itertools import product
from typing import Any

from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.timeline import explained
from popmq_proxy.core.explain.verdict import VerdictState, verdicts

NOW = 1_700_000_000_000
STORED = link.StoredMessage(
    topic="t", queue_id=1, offset=5, stored_ms=NOW - 1_000, properties={"UNIQ_KEY": "id-a"}
)
RETRIED = link.StoredMessage(topic="%RETRY%g_t", offset=0, stored_ms=NOW - 500, reconsume_times=1)


def standing(**fields: Any) -> link.Standing:
    found = {
        "group": "g",
        "topic": "t",
        "queue_id": 1,
        "offset": 5,
        "position": 5,
        "group_exists": True,
        "has_received": True,
        "readable": True,
        "max_attempts": 16,
        "consume_from": "FIRST",
        "in_flight_max": 100,
        "waiting_polls": 1,
    }
    return link.Standing(**{**found, **fields})


def facts(*copies: link.KnownCopy, **fields: Any) -> link.ExplainReply:
    return link.ExplainReply(now_ms=NOW, copies=copies, **fields)


def message(**fields: Any) -> link.KnownCopy:
    return link.KnownCopy(stored=STORED, topic="t", **fields)


def of_group(**fields: Any) -> link.ExplainReply:
    return facts(message(), standings=[standing(**fields)])


def of_kind(kind: "link.CopyKind.ValueType", **fields: Any) -> link.ExplainReply:
    return facts(link.KnownCopy(kind=kind, stored=STORED, topic="t", **fields))


def held(**fields: Any) -> link.HeldBy:
    found = {"pop_time_ms": NOW - 100, "due_ms": NOW + 100, "generation": 1, "attempt": 1}
    return link.HeldBy(**{**found, **fields})


MOVED = link.JournalLine(
    kind=link.JOURNAL_KIND_MOVED, at_ms=NOW, group="g", topic="t", queue_id=1, offset=9
)
ACKED = link.JournalLine(
    kind=link.JOURNAL_KIND_ACKED, at_ms=NOW, group="g", topic="t", queue_id=1, offset=5
)
DEAD: dict[str, Any] = {
    "kind": link.COPY_KIND_DEAD_LETTER,
    "stored": STORED,
    "topic": "t",
    "group": "g",
}

ALL = {
    VerdictState.READY: of_group(),
    VerdictState.BEHIND: of_group(position=2),
    VerdictState.LEASED: of_group(held=held()),
    VerdictState.ENDING: of_group(held=held(due_ms=NOW)),
    VerdictState.RETRY_WAIT: of_group(held=held(nack_kind=link.NACK_KIND_UNCOUNTED)),
    VerdictState.BLOCKED: of_group(fifo=True, blocked_by=link.BlockedBy(offset=3, held=True)),
    VerdictState.FILTERED: of_group(position=9, filter="tag x", filtered=True),
    VerdictState.CAPPED: of_group(in_flight=100),
    VerdictState.LOCKED: of_group(pulled_by="client"),
    VerdictState.ACKED: facts(message(), standings=[standing(position=9)], journal=[ACKED]),
    VerdictState.SETTLED: of_group(position=9),
    VerdictState.SKIPPED: facts(message(), standings=[standing(position=9)], journal=[MOVED]),
    VerdictState.BEFORE_START: of_group(position=9, has_received=False, consume_from="LAST"),
    VerdictState.DEAD: facts(message(), link.KnownCopy(**DEAD)),
    VerdictState.REDRIVEN: facts(message(), link.KnownCopy(**DEAD, redriven=True)),
    VerdictState.DELAYED: of_kind(link.COPY_KIND_DELAYED, waits=True, due_ms=NOW + 1),
    VerdictState.RECALLED: of_kind(link.COPY_KIND_RECALL),
    VerdictState.HALF: of_kind(link.COPY_KIND_HALF, waits=True),
    VerdictState.ROLLED_BACK: of_kind(link.COPY_KIND_HALF, outcome="rolled back"),
    VerdictState.GIVEN_UP: of_kind(link.COPY_KIND_GIVEN_UP),
    VerdictState.EXPIRED: facts(expired_entries=1),
    VerdictState.NO_GROUP: of_group(group_exists=False),
    VerdictState.NOT_READABLE: of_group(readable=False),
    VerdictState.UNREAD: facts(message()),
}


def test_every_state_is_reached() -> None:
    assert {VerdictState.UNKNOWN, *ALL} == set(VerdictState)
    for state, found in ALL.items():
        (verdict,) = verdicts("broker-a", found)
        assert verdict.state == state
        assert verdict.visible == (state is VerdictState.READY)
        assert verdict.broker == "broker-a"


def test_no_combination_is_left_without_an_answer() -> None:
    """And only what the group has not passed is visible, to a group that may have it."""
    flags = ("group_exists", "readable", "has_received", "filtered", "fifo", "settled")
    leases = (None, held(), held(due_ms=NOW), held(nack_kind=link.NACK_KIND_COUNTED))
    blockers = (None, link.BlockedBy(offset=3), link.BlockedBy(offset=3, held=True))
    places, ends = (2, 5, 9), ("", "acked", "expired")
    journals: tuple[list[link.JournalLine], ...] = ([], [MOVED], [ACKED])
    count = 0
    for values in product((False, True), repeat=len(flags)):
        for lease, blocker, position, ended, journal in product(
            leases, blockers, places, ends, journals
        ):
            given = dict(zip(flags, values, strict=True))
            more = {"held": lease, "blocked_by": blocker, "position": position, "ended": ended}
            found = facts(message(), standings=[standing(**given, **more)], journal=journal)
            (verdict,) = verdicts("b", found)
            count += 1
            assert verdict.text
            if verdict.visible:
                assert given["group_exists"]
                assert given["readable"]
                assert lease is None
                assert blocker is None
                assert not given["filtered"]
    assert count == 64 * 4 * 3 * 3 * 3 * 3


def test_the_newest_copy_decides() -> None:
    retry = link.KnownCopy(kind=link.COPY_KIND_RETRY, stored=RETRIED, topic="t", group="g")
    own = [
        standing(position=9, ended="expired"),
        standing(topic="%RETRY%g_t", queue_id=0, offset=0, position=0),
        standing(group="h", position=5),
    ]
    found = {one.group: one.state for one in verdicts("b", facts(message(), retry, standings=own))}
    assert found == {"g": "ready", "h": "ready"}
    own[1] = standing(topic="%RETRY%g_t", queue_id=0, offset=0, position=0, held=held())
    found = {one.group: one.state for one in verdicts("b", facts(message(), retry, standings=own))}
    assert found == {"g": "leased", "h": "ready"}


def test_what_is_gone_from_its_queue_is_expired_unless_a_group_still_has_a_copy() -> None:
    gone = message(unreadable=True)
    (verdict,) = verdicts("b", facts(gone))
    assert verdict.state == VerdictState.EXPIRED
    retry = link.KnownCopy(kind=link.COPY_KIND_RETRY, stored=RETRIED, topic="t", group="g")
    own = [standing(topic="%RETRY%g_t", queue_id=0, offset=0, position=0)]
    (verdict,) = verdicts("b", facts(gone, retry, standings=own))
    assert (verdict.group, verdict.state) == ("g", VerdictState.READY)


def test_a_silent_group_is_told() -> None:
    """It could be received, if anybody asked."""
    for last_ms, says in ((0, "since the broker started"), (NOW - 120_000, "the last time was")):
        (verdict,) = verdicts("b", of_group(waiting_polls=0, last_receive_ms=last_ms))
        assert verdict.visible
        assert says in verdict.hint
    (verdict,) = verdicts("b", of_group(waiting_polls=0, last_receive_ms=NOW - 1_000))
    assert verdict.hint == ""


def test_an_unknown_id_tells_where_it_was_looked_for() -> None:
    replies = {
        "a": facts(topics_searched=3, log_from_ms=NOW),
        "b": facts(topics_searched=2),
    }
    response = explained("nothing", "t", replies)
    (verdict,) = response.verdicts
    assert not response.found
    assert "5 topics of a, b were searched, and no broker has the topic t" in verdict.text
    assert "stored before 2023-11-14T22:13:20.000Z is deleted" in verdict.text


def test_what_the_brokers_do_not_know_is_said() -> None:
    found = facts(message(), message(), incomplete=True, journal_until_ms=NOW, buffered=True)
    notes = " ".join(explained("id-a", "", {"b": found}).notes)
    for part in ("given up", "read up to", "pop_buffer=memory", "2 messages have this id"):
        assert part in notes
