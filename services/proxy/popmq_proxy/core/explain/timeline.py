"""What happened to a message, as lines in the order of time, from what the brokers know."""

from collections.abc import Iterator, Mapping

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.records import properties as names
from popmq_common.words import counted
from popmq_common.words import moment as when
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.verdict import VerdictState, verdicts

_NACKS = {
    link.NACK_KIND_COUNTED: "a failed attempt",
    link.NACK_KIND_UNCOUNTED: "not counted",
    link.NACK_KIND_FATAL: "for good",
}


def explained(
    message_id: str, topic: str, facts: Mapping[str, link.ExplainReply]
) -> admin.ExplainResponse:
    """All brokers' facts by their names, as one answer."""
    response = admin.ExplainResponse()
    for broker, reply in facts.items():
        response.timeline.extend(_events(broker, reply))
        response.verdicts.extend(verdicts(broker, reply))
        response.notes.extend(_notes(broker, reply))
        response.now_ms = max(response.now_ms, reply.now_ms)
        for copy in reply.copies:
            response.topic = response.topic or copy.topic
    events = sorted(response.timeline, key=lambda event: event.at_ms)
    del response.timeline[:]
    response.timeline.extend(events)
    response.found = bool(response.verdicts)
    if not response.found:
        response.verdicts.append(_unknown(message_id, topic, facts))
    return response


def _unknown(message_id: str, topic: str, facts: Mapping[str, link.ExplainReply]) -> admin.Verdict:
    searched = sum(reply.topics_searched for reply in facts.values())
    where = f"{counted(searched, 'topic')} of {', '.join(sorted(facts)) or 'no broker'}"
    where += " was searched" if searched == 1 else " were searched"
    text = f"no message has the id {message_id}; {where}"
    if topic and not any(reply.topic_exists for reply in facts.values()):
        text += f", and no broker has the topic {topic}"
    deleted_ms = max((reply.log_from_ms for reply in facts.values()), default=0)
    if deleted_ms:
        text += f"; what was stored before {when(deleted_ms)} is deleted, as retention says"
    hint = (
        "an id is 34 characters that its sender was answered; a key is found by popmq message find"
    )
    return admin.Verdict(state=VerdictState.UNKNOWN.value, text=text, hint=hint)


def _notes(broker: str, reply: link.ExplainReply) -> Iterator[str]:
    if reply.incomplete:
        yield f"{broker}: the search was given up, there may be more; name the topic with --topic"
    if reply.journal_until_ms:
        until = when(reply.journal_until_ms)
        yield f"{broker}: the journal of deliveries was read up to {until}, and no further"
    if reply.buffered:
        yield f"{broker}: with pop_buffer=memory what is acked soon is in no journal"
    for copy in reply.copies:
        if copy.write_queues and not copy.unreadable:
            has = counted(copy.write_queues, "queue")
            yield (
                f"{broker}: queue {copy.stored.queue_id} of topic {copy.topic} takes no more "
                f"messages, for the topic has {has} now; what is in it is delivered until "
                "retention deletes it"
            )
    sent = [
        copy
        for copy in reply.copies
        if copy.kind == link.COPY_KIND_MESSAGE and names.REDRIVE_OF not in copy.stored.properties
    ]
    if len(sent) > 1:
        yield (
            f"{broker}: {len(sent)} messages have this id: it was sent again when an answer was "
            "lost; what is said of groups is about the newest"
        )


def _events(broker: str, reply: link.ExplainReply) -> Iterator[admin.TimelineEvent]:
    for copy in reply.copies:
        kind, text = _stored(copy)
        yield admin.TimelineEvent(
            at_ms=copy.stored.stored_ms, broker=broker, group=copy.group, kind=kind, text=text
        )
    attempts = {
        (copy.stored.topic, copy.stored.queue_id, copy.stored.offset): copy.stored.reconsume_times
        for copy in reply.copies
    }
    endings = _endings(reply)
    for line in reply.journal:
        before = attempts.get((line.topic, line.queue_id, line.offset), 0)
        kind, text = _journaled(line, line.attempt or before + 1)
        text = endings.get(_lease(line), text) if kind == "ended" else text
        yield admin.TimelineEvent(
            at_ms=line.at_ms, broker=broker, group=line.group, kind=kind, text=text
        )


def _lease(line: link.JournalLine) -> tuple[str, str, int, int, int]:
    return line.group, line.topic, line.queue_id, line.offset, line.generation


def _endings(reply: link.ExplainReply) -> dict[tuple[str, str, int, int, int], str]:
    """Of leases that ended without an ack, and not because their time ran out: what ended them.

    What is written in the moment of the end tells it: a dead letter, a copy, or nothing.
    """
    written = {(copy.group, copy.stored.stored_ms): copy.kind for copy in reply.copies}
    until_ms: dict[tuple[str, str, int, int, int], int] = {}
    nacked = set()
    found = {}
    for line in reply.journal:
        lease, group = _lease(line), line.group
        if line.kind == link.JOURNAL_KIND_NACKED:
            nacked.add(lease)
        if line.kind != link.JOURNAL_KIND_ENDED:
            until_ms[lease] = max(until_ms.get(lease, 0), line.until_ms)
        elif lease in nacked:
            found[lease] = f"the delay of the nack of group {group} is over"
        elif line.at_ms < until_ms.get(lease, 0):
            match written.get((group, line.at_ms)):
                case link.COPY_KIND_DEAD_LETTER:
                    found[lease] = f"group {group} gave it up before its time ended"
                case link.COPY_KIND_RETRY:
                    text = f"group {group} gave it back before its time ended, not counted"
                    found[lease] = text
                case _:
                    found[lease] = f"it was deleted while group {group} held it"
    return found


def _stored(copy: link.KnownCopy) -> tuple[str, str]:
    stored, named = copy.stored, copy.stored.properties
    place = f"queue {stored.queue_id}, offset {stored.offset}"
    match copy.kind:
        case link.COPY_KIND_RETRY:
            reason = named.get(names.RETRY_REASON, "")
            why = f": {reason}" if reason else ""
            if named.get(names.REDRIVE_OF):
                text = f"sent again from {named[names.REDRIVE_OF]} to group {copy.group} alone"
                return "redriven", text
            attempt = stored.reconsume_times + 1
            given_back = named.get(names.UNCOUNTED, "")
            often = ""
            if given_back:
                count = counted(names.number_of(given_back) or 0, "time")
                often = f", given back uncounted {count}"
            text = f"to be delivered again to group {copy.group}, attempt {attempt}{often}{why}"
            return "retry", text
        case link.COPY_KIND_DEAD_LETTER:
            attempts = counted(names.number_of(named.get("DLQ_ATTEMPTS")) or 0, "attempt")
            reason = named.get(names.DLQ_REASON, "")
            again = "; it was sent again since" if copy.redriven else ""
            return (
                "dead",
                f"dead letter of group {copy.group} after {attempts}: {reason}{again}",
            )
        case link.COPY_KIND_DELAYED:
            due = f"until {when(copy.due_ms)}" if copy.due_ms else "for a delay level"
            again = " (written again)" if named.get(names.TIMER_ROLL_TIMES) else ""
            return "parked", f"waits {due} for topic {copy.topic}{again}"
        case link.COPY_KIND_RECALL:
            return "recalled", "recalled: it shall not come"
        case link.COPY_KIND_HALF:
            again = " (written again)" if named.get(names.HALF_ORIGIN) else ""
            return "half", f"half message of a transaction for topic {copy.topic}{again}"
        case link.COPY_KIND_GIVEN_UP:
            checks = names.number_of(named.get(names.CHECK_COUNT)) or 0
            asked = counted(checks, "question")
            return "given-up", f"its transaction was given up after {asked}"
    if named.get(names.REDRIVE_OF):
        return (
            "redriven",
            f"sent again from {named[names.REDRIVE_OF]} to topic {copy.topic}, {place}",
        )
    if named.get(names.TIMER_OF):
        return "delivered", f"its time came: put into topic {copy.topic}, {place}"
    if named.get(names.TRANSACTION):
        return "committed", f"committed to topic {copy.topic}, {place}"
    return "sent", f"stored in topic {copy.topic}, {place}"


def _journaled(line: link.JournalLine, attempt: int) -> tuple[str, str]:
    group, until = line.group, when(line.until_ms)
    match line.kind:
        case link.JOURNAL_KIND_HANDED_OUT:
            who = f" (client {line.client_id})" if line.client_id else ""
            return (
                "delivered-to",
                f"handed out to group {group}{who}, attempt {attempt}, until {until}",
            )
        case link.JOURNAL_KIND_RENEWED:
            why = f"client {line.client_id} lives" if line.client_id else f"group {group} asked"
            return "renewed", f"{why}: held until {until}"
        case link.JOURNAL_KIND_HELD_ANEW:
            return "changed", f"group {group} holds it until {until}, lease {line.generation}"
        case link.JOURNAL_KIND_NACKED:
            how = _NACKS.get(line.nack_kind, "")
            reason = f": {line.reason}" if line.reason else ""
            return "nacked", f"given back by group {group} until {until}, {how}{reason}"
        case link.JOURNAL_KIND_ACKED:
            return "acked", f"acked by group {group}"
        case link.JOURNAL_KIND_ENDED:
            return "ended", f"the lease of group {group} ended without an ack"
        case link.JOURNAL_KIND_STARTED:
            return "skipped", f"group {group} started behind it, at offset {line.offset}"
    if line.offset < 0:
        return "moved", f"group {group} was deleted, with its place in the queue"
    return "moved", f"group {group} was set to offset {line.offset} of the queue"
