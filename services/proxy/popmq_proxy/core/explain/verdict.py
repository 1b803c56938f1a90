"""Why a message can or cannot be received now, told for each group, from what the brokers know.

Facts of one broker in (`link.ExplainReply`), verdicts out. docs/explain.md lists the states; a test
walks all of them.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records import properties as names
from popmq_common.words import counted
from popmq_common.words import moment as when
from popmq_internal.v1 import link_pb2 as link

SILENT_MS = 60_000
"""A group whose last receive is longer ago, and that has none waiting, has no consumer."""


class VerdictState(StrEnum):
    """The word for programs."""

    READY = "ready"
    BEHIND = "behind"
    LEASED = "leased"
    ENDING = "ending"
    RETRY_WAIT = "retry-wait"
    BLOCKED = "blocked"
    FILTERED = "filtered"
    CAPPED = "capped"
    LOCKED = "locked"
    ACKED = "acked"
    SETTLED = "settled"
    SKIPPED = "skipped"
    BEFORE_START = "before-start"
    DEAD = "dead"
    REDRIVEN = "redriven"
    DELAYED = "delayed"
    RECALLED = "recalled"
    HALF = "half"
    ROLLED_BACK = "rolled-back"
    GIVEN_UP = "given-up"
    EXPIRED = "expired"
    NO_GROUP = "no-group"
    NOT_READABLE = "not-readable"
    UNREAD = "unread"
    UNKNOWN = "unknown"


def _say(
    state: VerdictState, text: str, *, until_ms: int = 0, hint: str = "", visible: bool = False
) -> admin.Verdict:
    return admin.Verdict(
        state=state.value, text=text, until_ms=until_ms, hint=hint, visible=visible
    )


def verdicts(broker: str, facts: link.ExplainReply) -> list[admin.Verdict]:
    """What holds at this broker: one verdict of each group, or one for all; none when the broker
    knows nothing of the message."""
    whole = _for_all(facts)
    found = [whole] if whole is not None else list(_by_group(facts))
    for verdict in found:
        verdict.broker = broker
    return found


def _of_kind(facts: link.ExplainReply, *kinds: int) -> list[link.KnownCopy]:
    return [copy for copy in facts.copies if copy.kind in kinds]


def _for_all(facts: link.ExplainReply) -> admin.Verdict | None:
    """The same for every group: it waits, was taken back, or is gone. None: groups differ."""
    messages = _of_kind(facts, link.COPY_KIND_MESSAGE)
    waiting = [copy for copy in _of_kind(facts, link.COPY_KIND_DELAYED) if copy.waits]
    if waiting:
        last = waiting[-1]
        due = f"at {when(last.due_ms)}" if last.due_ms else "when its delay level is over"
        hint = "popmq recall takes it back, with the handle that its sender got"
        text = f"it waits for its time and comes {due}"
        return _say(VerdictState.DELAYED, text, until_ms=last.due_ms, hint=hint)
    if any(not copy.unreadable for copy in messages):
        return None
    retries = _of_kind(facts, link.COPY_KIND_RETRY, link.COPY_KIND_DEAD_LETTER)
    if any(not copy.unreadable for copy in retries):
        return None
    if messages or retries:
        return _say(
            VerdictState.EXPIRED,
            f"it is gone from topic {(messages or retries)[-1].topic}: retention has deleted it, "
            "or the topic was deleted",
        )
    if _of_kind(facts, link.COPY_KIND_RECALL):
        return _say(VerdictState.RECALLED, "it was recalled before its time and will not come")
    transaction = _transaction(facts)
    if transaction is not None:
        return transaction
    if _of_kind(facts, link.COPY_KIND_DELAYED):
        text = "its time has come, and what was delivered is not there any more"
        return _say(VerdictState.EXPIRED, text)
    if facts.expired_entries:
        since = f"; the log begins at {when(facts.log_from_ms)}" if facts.log_from_ms else ""
        text = f"retention has deleted it: the index knows the id, the log does not{since}"
        return _say(VerdictState.EXPIRED, text)
    return None


def _transaction(facts: link.ExplainReply) -> admin.Verdict | None:
    """Of a half message without a final one."""
    if _of_kind(facts, link.COPY_KIND_GIVEN_UP):
        return _say(
            VerdictState.GIVEN_UP,
            "no producer settled its transaction in time; it lies in TRANS_CHECK_MAX_TIME_TOPIC",
            hint="send it again if it is still wanted",
        )
    halves = _of_kind(facts, link.COPY_KIND_HALF)
    if not halves:
        return None
    last = halves[-1]
    if last.waits:
        asked = f"producers were asked {counted(last.checks, 'time')}"
        return _say(
            VerdictState.HALF,
            f"its transaction is not settled; {asked}, next at {when(last.due_ms)}",
            until_ms=last.due_ms,
            hint="popmq transaction list, then commit or rollback",
        )
    sure = "" if last.outcome else "; the broker remembers no more than that it was not committed"
    return _say(VerdictState.ROLLED_BACK, f"its transaction was rolled back{sure}")


def _by_group(facts: link.ExplainReply) -> Iterator[admin.Verdict]:
    groups = {one.group for one in facts.standings}
    groups |= {copy.group for copy in facts.copies if copy.group}
    messages = _of_kind(facts, link.COPY_KIND_MESSAGE)
    for group in sorted(groups):
        verdict = _of_group(group, facts)
        verdict.group = group
        yield verdict
    if messages and not groups:
        topic = messages[-1].topic
        yield _say(
            VerdictState.UNREAD,
            f"no group has received of topic {topic} yet; the message waits in its queue",
            hint=f"popmq receive {topic} --group GROUP",
        )


def _of_group(group: str, facts: link.ExplainReply) -> admin.Verdict:
    """By the newest copy that concerns the group."""
    copies = [copy for copy in facts.copies if _concerns(copy, group)]
    readable = [copy for copy in copies if not copy.unreadable]
    if copies and copies[-1].kind == link.COPY_KIND_DEAD_LETTER:
        return _dead(group, copies[-1])
    for copy in readable[-1:]:
        if copy.kind == link.COPY_KIND_DEAD_LETTER:
            return _dead(group, copy)
        for standing in facts.standings:
            if standing.group == group and _is_of(standing, copy.stored):
                return _of_standing(standing, copy, facts)
    text = f"what group {group} had of it is gone: retention has deleted it"
    return _say(VerdictState.EXPIRED, text)


def _concerns(copy: link.KnownCopy, group: str) -> bool:
    of_group = copy.group == group and copy.kind in (
        link.COPY_KIND_RETRY,
        link.COPY_KIND_DEAD_LETTER,
    )
    return of_group or copy.kind == link.COPY_KIND_MESSAGE


def _is_of(place: link.Standing | link.JournalLine, stored: link.StoredMessage) -> bool:
    there = place.topic, place.queue_id, place.offset
    return there == (stored.topic, stored.queue_id, stored.offset)


def _dead(group: str, copy: link.KnownCopy) -> admin.Verdict:
    named = copy.stored.properties
    reason = named.get(names.DLQ_REASON, "")
    attempts = counted(names.number_of(named.get("DLQ_ATTEMPTS")) or 0, "attempt")
    since = when(copy.stored.stored_ms)
    text = f"a dead letter of group {group} since {since}, after {attempts}: {reason}"
    if copy.unreadable:
        text += "; it was purged since, or retention has deleted it"
        return _say(VerdictState.EXPIRED, text)
    if copy.redriven:
        text += "; it was sent again since, and that message is gone"
        return _say(VerdictState.REDRIVEN, text)
    message_id = named.get(names.UNIQ_KEY, "")
    return _say(VerdictState.DEAD, text, hint=f"popmq dlq redrive {group} --id {message_id}")


def _of_standing(
    standing: link.Standing, copy: link.KnownCopy, facts: link.ExplainReply
) -> admin.Verdict:
    group = standing.group
    if not standing.group_exists:
        hint = f"popmq group create {group} --from first"
        return _say(VerdictState.NO_GROUP, f"group {group} does not exist", hint=hint)
    if not standing.readable:
        text = f"topic {copy.topic} is not readable, by its permission"
        return _say(VerdictState.NOT_READABLE, text)
    if standing.HasField("held"):
        return _held(standing, facts.now_ms)
    if standing.HasField("blocked_by"):
        return _blocked(standing)
    in_turn = standing.fifo and standing.has_received and not standing.settled
    if standing.offset >= standing.position or (in_turn and standing.ended != "acked"):
        return _to_come(standing, copy, facts.now_ms)
    return _past(standing, copy, facts)


def _held(standing: link.Standing, now_ms: int) -> admin.Verdict:
    held, group = standing.held, standing.group
    often = _often(held.handed_out, held.attempt, standing)
    until = when(held.due_ms)
    if held.nack_kind:
        counted = "counted" if held.nack_kind == link.NACK_KIND_COUNTED else "not counted"
        reason = f": {held.reason}" if held.reason else ", without a reason"
        text = (
            f"group {group} gave attempt {held.attempt} back at {when(held.pop_time_ms)}"
            f" ({counted}{often}){reason}; it is redelivered at {until}"
        )
        return _say(VerdictState.RETRY_WAIT, text, until_ms=held.due_ms)
    who = f"client {held.client_id}" if held.client_id else f"a consumer of group {group}"
    attempt = f"attempt {held.attempt} of {standing.max_attempts}, lease {held.generation}{often}"
    if held.due_ms <= now_ms:
        text = f"the lease of {who} ended at {until} without an ack; it is redelivered in a moment"
        return _say(VerdictState.ENDING, text, until_ms=now_ms)
    text = f"{who} holds it since {when(held.pop_time_ms)}, until {until} ({attempt})"
    if held.client_id:
        text += "; the client's signs of life make that longer"
    return _say(VerdictState.LEASED, text, until_ms=held.due_ms)


def _blocked(standing: link.Standing) -> admin.Verdict:
    before = standing.blocked_by
    name = before.message_id or f"the message at offset {before.offset}"
    how = f"is held until {when(before.due_ms)}" if before.held else "has failed and comes first"
    text = f"message group {standing.message_group} is in order: {name} before it {how}"
    return _say(
        VerdictState.BLOCKED, text, hint=f"popmq explain {name}" if before.message_id else ""
    )


def _often(handed_out: int, attempts: int, standing: link.Standing) -> str:
    """What is given back uncounted has a second count."""
    if handed_out <= attempts:
        return ""
    return f", handed out {counted(handed_out, 'time')} of at most {standing.max_hand_outs}"


def _to_come(standing: link.Standing, copy: link.KnownCopy, now_ms: int) -> admin.Verdict:
    group = standing.group
    if standing.filtered:
        text = f"group {group} will pass it over: its last receive asked for {standing.filter}"
        return _say(VerdictState.FILTERED, text)
    if standing.pulled_by:
        text = f"consumer {standing.pulled_by} pulls this queue alone, by the access lock"
        return _say(VerdictState.LOCKED, text)
    if standing.in_flight_max and standing.in_flight >= standing.in_flight_max:
        held = counted(standing.in_flight, "message")
        text = f"group {group} holds {held} of the queue, the most allowed"
        return _say(VerdictState.CAPPED, text, hint="ack what is held")
    hint = _no_consumer(standing, now_ms)
    backlog = max(0, standing.offset - standing.position)
    if backlog:
        before = counted(backlog, "message")
        text = f"group {group} has not reached it: {before} of its queue before it"
        return _say(VerdictState.BEHIND, text, hint=hint)
    again = f", attempt {standing.attempts + 1}" if standing.attempts else ""
    attempts = standing.attempts if standing.fifo else copy.stored.reconsume_times
    again += _often(standing.handed_out, attempts, standing)
    text = f"the next receive of group {group} may get it{again}"
    if standing.reason:
        text += f"; the last attempt failed: {standing.reason}"
    return _say(VerdictState.READY, text, hint=hint, visible=True)


def _no_consumer(standing: link.Standing, now_ms: int) -> str:
    if standing.waiting_polls:
        return ""
    if not standing.last_receive_ms:
        return f"no consumer of group {standing.group} has asked since the broker started"
    if now_ms - standing.last_receive_ms > SILENT_MS:
        last = when(standing.last_receive_ms)
        return f"no consumer of group {standing.group} is asking; the last time was {last}"
    return ""


def _past(standing: link.Standing, copy: link.KnownCopy, facts: link.ExplainReply) -> admin.Verdict:
    """The group went by it: why?"""
    group = standing.group
    go_back = f"to get all there is: popmq group reset-offset {group} {copy.topic} --to-earliest"
    if not standing.has_received:
        start = standing.consume_from.lower()
        text = f"group {group} has not received yet and will start behind it (from {start})"
        return _say(VerdictState.BEFORE_START, text, hint=go_back)
    own = [line for line in facts.journal if line.group == group]
    acked = _last(
        line for line in own if line.kind == link.JOURNAL_KIND_ACKED and _is(line, standing)
    )
    if acked is not None:
        return _say(VerdictState.ACKED, f"group {group} acked it at {when(acked.at_ms)}")
    if standing.ended == "acked":
        return _say(VerdictState.ACKED, f"group {group} acked it")
    skipped = _skipped(standing, own)
    if skipped:
        return _say(VerdictState.SKIPPED, f"group {group} {skipped}", hint=go_back)
    if standing.filtered:
        text = f"group {group} passed it over: its receives ask for {standing.filter}"
        return _say(VerdictState.FILTERED, text)
    text = (
        f"group {group} is done with it; that was settled before what the broker remembers: "
        "acked, filtered out, or the group began behind it"
    )
    return _say(VerdictState.SETTLED, text)


def _skipped(standing: link.Standing, own: Iterable[link.JournalLine]) -> str:
    """What set the group's position behind the message; empty: nothing that is known."""
    behind = _last(
        line
        for line in own
        if line.kind in (link.JOURNAL_KIND_MOVED, link.JOURNAL_KIND_STARTED)
        and (line.topic, line.queue_id) == (standing.topic, standing.queue_id)
        and line.offset > standing.offset
    )
    if behind is None:
        return ""
    at = f"at {when(behind.at_ms)}"
    if behind.kind == link.JOURNAL_KIND_STARTED:
        return f"started behind it, {at}"
    if standing.consume_from == "LAST":  # a queue's own start, for a proxy of an older version
        return f"started behind it or was reset past it, {at}"
    return f"was reset past it, {at}"


def _is(line: link.JournalLine, standing: link.Standing) -> bool:
    there = line.topic, line.queue_id, line.offset
    return there == (standing.topic, standing.queue_id, standing.offset)


def _last(lines: Iterable[link.JournalLine]) -> link.JournalLine | None:
    found = None
    for line in lines:
        found = line
    return found
