"""Is every promise kept? What a history shows to be wrong, by rule.

    rule             what is found
    ---------------  -------------------------------------------------------------------------
    lost             a send that was answered OK, and never came
    not stored       a send that was answered OK, and is in no queue when all has ended
    stored again     more copies in queues than there were tries of sends
    other place      a send was told another queue offset or id than the message has
    one place twice  a queue offset that was given to two messages
    again            a message that came in a receive that began after its ack was answered OK;
                     of one that is stored twice, after as many acks
    order            a message group whose messages came first in another order than they were sent
    turn             a message of a message group that came while an earlier one was neither done
                     with nor delivered with it
    early            a delayed message that came before its time, or a nacked one
    transaction      a message that came although it was rolled back, or before anybody committed
                     it; one that nobody may settle any more
    unknown          a message that nobody sent
    replicas         logs of replicas that differ, or are damaged
    trouble          a server that ended by itself, or a group that was not in sync in the end

What has no answer may have happened or not. Source of the promises: docs/guarantees.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from torture import load
from torture.history import Call, History, Stored, letter

CLOCKS_S: Final = 0.05
"""A nack's delay begins at the broker, and is measured by a clock that no other one follows."""
GONE: Final = ("INVALID_TRANSACTION_ID", "PRECONDITION_FAILED")
"""What a settling is told whose half message is not as it was left."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    text: str
    at_s: float = 0.0


@dataclass(slots=True)
class Calls:
    """By their message, in the order in which they were answered."""

    sends: dict[str, list[Call]]
    """Those of transactions are `half`."""
    receives: dict[str, list[Call]]
    acks: dict[str, list[Call]]
    nacks: dict[str, list[Call]]
    settles: dict[str, list[Call]]
    """And the answers to questions."""
    copies: Counter[str]
    """Places in queues that a message has; empty where nobody has looked."""


def judge(history: History) -> list[Violation]:
    calls = _sorted(history)
    found: list[Violation] = []
    for rule in RULES:
        found += rule(history, calls)
    return sorted(found, key=lambda one: one.at_s)


def _sorted(history: History) -> Calls:
    groups: dict[str, dict[str, list[Call]]] = defaultdict(lambda: defaultdict(list))
    names = {"half": "send", "asked": "settle"}
    for call in sorted(history.calls, key=lambda call: call.ended_s):
        if call.body:
            groups[names.get(call.name, call.name)][call.body].append(call)
    copies = Counter(one.body for one in history.stored)
    return Calls(
        sends=groups["send"],
        receives=groups["receive"],
        acks=groups["ack"],
        nacks=groups["nack"],
        settles=groups["settle"],
        copies=copies,
    )


def _was_ok(calls: Sequence[Call]) -> Call | None:
    """The first one that was answered OK."""
    return next((call for call in calls if not call.error), None)


def _is_committed(body: str, calls: Calls) -> bool:
    """Of a transaction whose half message is stored: it ends as it was decided."""
    return bool(calls.sends[body][0].commit)


def lost(history: History, calls: Calls) -> Iterator[Violation]:
    for body, sends in calls.sends.items():
        if letter(body) == "p" or (letter(body) == "t" and not _is_committed(body, calls)):
            continue
        sent = _was_ok(sends)
        if sent is not None and body not in calls.receives:
            yield Violation("lost", f"{body}, sent OK at {sent.ended_s:.3f}", sent.ended_s)


def stored(history: History, calls: Calls) -> Iterator[Violation]:
    if not history.stored:
        return
    for body, sends in calls.sends.items():
        sent, count = _was_ok(sends), calls.copies[body]
        if letter(body) == "t" and not _is_committed(body, calls):
            most, least = 0, 0
        else:
            most = len(sends) * load.TRIES[sends[0].kind]
            least = int(sent is not None)
        at_s = sends[-1].ended_s
        if count < least:
            yield Violation("not stored", f"{body}, sent OK at {at_s:.3f}", at_s)
        if count > most:
            yield Violation("stored again", f"{body}: {count} times, {most} at most", at_s)


def other_place(history: History, calls: Calls) -> Iterator[Violation]:
    """Of messages that go into their queue at once."""
    places: dict[str, list[Stored]] = defaultdict(list)
    for one in history.stored:
        places[one.body].append(one)
    for body, sends in calls.sends.items():
        sent = _was_ok(sends)
        if sent is None or not sent.message_id or letter(body) in "dt" or body not in places:
            continue
        told = sent.message_id, sent.queue_offset
        if told not in [(one.message_id, one.queue_offset) for one in places[body]]:
            text = f"{body} was told {told}, stored are {places[body]}"
            yield Violation("other place", text, sent.ended_s)


def one_place_twice(history: History, calls: Calls) -> Iterator[Violation]:
    """Also among what came: an offset that was given again after a fail-over is seen there. Only
    a FIFO group gets all from the topic's own queues, others may get it from a retry topic."""
    first: dict[tuple[str, str, int, int], str] = {}
    for one in history.stored:
        if (before := first.setdefault(one.place, one.body)) != one.body:
            yield Violation("one place twice", f"{one.place}: {before} and {one.body}")
    came: dict[tuple[str, int], tuple[str, str]] = {}
    for receives in calls.receives.values():
        for call in receives:
            if not call.place or letter(call.body) != "f":
                continue
            place = call.place, call.queue_offset
            message = call.body, call.message_id
            if (earlier := came.setdefault(place, message)) != message:
                yield Violation("one place twice", f"{place}: {earlier}, {message}", call.ended_s)


def again(history: History, calls: Calls) -> Iterator[Violation]:
    for body, receives in calls.receives.items():
        ends_s = [ack.ended_s for ack in calls.acks.get(body, ()) if not ack.error]
        copies = max(1, calls.copies[body]) if history.stored else _tries(calls, body)
        for call in receives:
            acks = sum(end_s < call.began_s for end_s in ends_s)
            if acks >= copies:
                text = f"{body}, attempt {call.attempt}, acked OK at {ends_s[copies - 1]:.3f}"
                yield Violation("again", text, call.ended_s)
                break


def _tries(calls: Calls, body: str) -> int:
    """So often it may be stored, where nobody has looked."""
    sends = calls.sends.get(body, ())
    return max(1, sum(load.TRIES[send.kind] for send in sends))


def order(history: History, calls: Calls) -> Iterator[Violation]:
    firsts = [receives[0] for body, receives in calls.receives.items() if letter(body) == "f"]
    highest: dict[str, int] = {}
    for call in sorted(firsts, key=lambda call: call.ended_s):
        before = highest.get(call.line, -1)
        if call.number < before:
            yield Violation("order", f"{call.body} came after {before}", call.ended_s)
        highest[call.line] = max(before, call.number)


def turn(history: History, calls: Calls) -> Iterator[Violation]:
    """Whatever is before it in its message group: an ack of it had been begun, or it came in the
    same receive."""
    lines: dict[str, list[Call]] = defaultdict(list)
    for body, receives in calls.receives.items():
        if letter(body) == "f":
            lines[receives[0].line] += receives
    for line, receives in lines.items():
        together: dict[float, set[int]] = defaultdict(set)
        for call in receives:
            together[call.began_s].add(call.number)
        sent = sorted(
            sends[0].number
            for body, sends in calls.sends.items()
            if body.startswith(f"{line}/") and _was_ok(sends)
        )
        acks_s = {number: _ack_began_s(calls, f"{line}/{number}") for number in sent}
        settled = 0  # of `sent`: all before are done with, at the time of the receive
        for call in sorted(receives, key=lambda call: call.ended_s):
            while settled < len(sent) and acks_s[sent[settled]] <= call.ended_s:
                settled += 1
            for number in sent[settled:]:
                if number >= call.number:
                    break
                if number not in together[call.began_s] and acks_s[number] > call.ended_s:
                    text = f"{call.body} came, and {number} was still to be done with"
                    yield Violation("turn", text, call.ended_s)
                    break


def _ack_began_s(calls: Calls, body: str) -> float:
    return min((ack.began_s for ack in calls.acks.get(body, ())), default=float("inf"))


def early(history: History, calls: Calls) -> Iterator[Violation]:
    for body, receives in calls.receives.items():
        if (due_s := _due_s(calls, body)) and receives[0].ended_s < due_s:
            text = f"{body} came {due_s - receives[0].ended_s:.3f} s before its time"
            yield Violation("early", text, receives[0].ended_s)
        if calls.copies[body] > 1:
            continue
        for nack in calls.nacks.get(body, ()):
            until_s = nack.until_s - CLOCKS_S
            for call in receives:
                if not nack.error and nack.ended_s < call.ended_s < until_s:
                    text = f"{body} came {until_s - call.ended_s:.3f} s too soon after its nack"
                    yield Violation("early", text, call.ended_s)


def _due_s(calls: Calls, body: str) -> float:
    """To the millisecond below, as the protocol has it. 0: at once."""
    sends = calls.sends.get(body, ())
    return min((int(send.until_s * 1000) / 1000 for send in sends), default=0.0)


def transactions(history: History, calls: Calls) -> Iterator[Violation]:
    for body in calls.sends:
        if letter(body) != "t":
            continue
        settles = calls.settles.get(body, ())
        came = calls.receives.get(body, ())
        said_s = min((one.began_s for one in settles if one.commit), default=float("inf"))
        if came and not _is_committed(body, calls):
            yield Violation("transaction", f"{body} came: it was rolled back", came[0].ended_s)
        elif came and came[0].ended_s < said_s:
            yield Violation("transaction", f"{body} came before its commit", came[0].ended_s)
        for one in settles:
            if one.name == "settle" and any(code in one.error for code in GONE):
                yield Violation("transaction", f"{body}: {one.error}", one.ended_s)


def unknown(history: History, calls: Calls) -> Iterator[Violation]:
    for body, receives in calls.receives.items():
        if body not in calls.sends:
            yield Violation("unknown", f"{body} came, nobody sent it", receives[0].ended_s)
    for body in calls.copies.keys() - calls.sends.keys():
        yield Violation("unknown", f"{body} is stored, nobody sent it")


def replicas(history: History, calls: Calls) -> Iterator[Violation]:
    for one in history.replicas:
        if one.differs_at is not None:
            text = f"{one.replica}: its log differs at {one.differs_at} of {one.compared_end}"
            yield Violation("replicas", text)
        for damage in one.damage:
            yield Violation("replicas", f"{one.replica}: {damage}")


def troubles(history: History, calls: Calls) -> Iterator[Violation]:
    for one in history.troubles:
        yield Violation("trouble", one.text, one.at_s)


Rule = Callable[[History, Calls], Iterator[Violation]]
RULES: Final[tuple[Rule, ...]] = (
    lost,
    stored,
    other_place,
    one_place_twice,
    again,
    order,
    turn,
    early,
    transactions,
    unknown,
    replicas,
    troubles,
)
