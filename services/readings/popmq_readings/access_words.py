"""Words of users and policies: actions, kinds of resources, an entry in a line."""

import difflib
from collections.abc import Sequence
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin

ACTIONS: Final = ["All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List"]
KINDS: Final = ["Topic", "Group", "Cluster", "Namespace"]


def known(text: str, words: Sequence[str]) -> str:
    """The one of `words` that it is, in any case. Raises `ValueError`."""
    lower = {word.lower(): word for word in words}
    found = lower.get(text.strip().lower())
    if found is not None:
        return found
    meant = difflib.get_close_matches(text.strip().lower(), lower, 1, 0.6)
    guess = f" Did you mean {lower[meant[0]]}?" if meant else ""
    raise ValueError(f"{text!r} is not one of {', '.join(words)}.{guess}")


def subject_text(subject: str) -> str:
    """User:alice, also of alice."""
    return subject if ":" in subject else f"User:{subject}"


def username_of(subject: str) -> str:
    """alice, also of User:alice; another kind stays, and the server refuses it."""
    kind, colon, name = subject.partition(":")
    return name if colon and kind.lower() == "user" else subject


def entry_text(entry: admin.AclEntry) -> str:
    """Allow Pub, Sub at Topic:orders from 10.0.0.0/8."""
    place = f" from {', '.join(entry.source_ips)}" if entry.source_ips else ""
    return f"{entry.decision} {', '.join(entry.actions)} at {entry.resource}{place}"
