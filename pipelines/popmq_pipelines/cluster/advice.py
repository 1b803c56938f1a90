"""What to do about a kind of finding, for who reads the report and did not write the audit."""

from collections.abc import Iterable
from typing import Final, NamedTuple

LOST: Final = (
    "Messages are gone from a broker. Keep the disks as they are, stop retention, and compare with "
    "replicas and backups before you restart anything."
)
LOG: Final = (
    "A broker has another log than the one that was audited. Find out who replaced or restored its "
    "disk. Accept the loss only when you know it."
)
SKIPPED: Final = (
    "A group was not given messages that it should have had. They are still stored: reset the "
    "group to the offset of the finding."
)
STUCK: Final = (
    "Messages were handed out and neither acked nor redelivered in time. Look for consumers that "
    "hold messages, and at the broker's revive alert."
)
AGAIN: Final = (
    "Messages were handed out or stored once too often. Check that the consumers are idempotent, "
    "and what they did with the messages named."
)
ORDER: Final = (
    "A FIFO group got messages out of order. Check what its consumers made of these message groups."
)
ATTEMPTS: Final = (
    "Attempts were miscounted, so dead letters came too early or too late. Look at the dead "
    "letters of the group, and redrive what had attempts left."
)
TIMED: Final = (
    "Delayed messages or transactions did not come when and as they should. Ask their producers "
    "what they expect, and resend what is missing."
)
DAMAGED: Final = (
    "A queue's files disagree with the log. Rebuild the queue: popmq store rebuild. No message is "
    "lost by that."
)
CLOCK: Final = "A clock went back. Check the time service of the broker's machine."
FORCED: Final = (
    "An operator made a replica primary that may have lacked messages. The report of the forced "
    "primary says from where on."
)
CLIENTS: Final = (
    "What clients have counted is not what brokers have. Start with the topic and minute named, "
    "and ask the client's logs for the messages of that minute."
)
UNKNOWN: Final = "Look at the finding with the command beside it."

_KINDS: Final = {
    LOST: ("message missing", "copy missing", "beyond the queue"),
    LOG: ("log went back", "another log"),
    SKIPPED: ("skipped", "position went back", "position gone", "replay would skip"),
    STUCK: ("lease overdue", "ack without checkpoint", "journal record not exported"),
    AGAIN: (
        "stored twice",
        "checkpointed twice",
        "ended twice",
        "leased while held",
        "leased after its end",
        "copy without end",
        "one id, two bodies",
        "redriven twice",
        "message without mark",
        "mark without message",
    ),
    ORDER: ("delivered out of order", "leased before its turn"),
    ATTEMPTS: (
        "attempt jumps",
        "copy with other attempts",
        "attempts above the maximum",
        "dead letter too early",
    ),
    TIMED: (
        "delivered early",
        "delivered twice",
        "timer overdue",
        "recalled and delivered",
        "wait ended twice",
        "committed twice",
        "committed and rolled back",
        "settled twice",
        "commit without end",
        "end without commit",
        "transaction unsettled",
    ),
    DAMAGED: ("queue entry wrong", "queue entry missing"),
    CLOCK: ("clock went back",),
    FORCED: ("primary forced",),
    CLIENTS: (
        "sent and not stored",
        "sent, and others stored",
        "stored and not sent",
        "received without lease",
        "received, and others leased",
        "acked without ack",
        "acked, and others ended",
    ),
}
ADVICE: Final = {kind: advice for advice, kinds in _KINDS.items() for kind in kinds}
"""Kind of finding → what to do. The most urgent first."""


class Remedy(NamedTuple):
    what: str
    because: list[str]
    """Kinds of findings, or the brokers that could not be looked at."""


def steps(kinds: Iterable[str]) -> list[Remedy]:
    """One for each piece of advice, the most urgent first."""
    found: dict[str, list[str]] = {}
    wanted = set(kinds)
    for kind in [*ADVICE, *sorted(wanted - set(ADVICE))]:
        if kind in wanted:
            found.setdefault(ADVICE.get(kind, UNKNOWN), []).append(kind)
    return [Remedy(what, because) for what, because in found.items()]
