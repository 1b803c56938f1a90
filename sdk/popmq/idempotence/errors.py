"""What can go wrong with idempotence, by what the caller can do about it.

PopMQClientError
└── IdempotenceError
    ├── KeyMissing          the message carries no business key: mend its sender
    ├── PayloadMismatch     a known key with another payload: two senders share a key, or one errs
    ├── OutsideTurn         asked for the turn's connection where no message is being handled
    ├── InboxTableMissing   create it once
    ├── RowMissing          the row a guard should change is not there
    ├── UnknownState        the state machine has no such state
    └── Fenced              the lock was lost meanwhile; nothing was written
"""

from popmq.errors import PopMQClientError
from popmq.message import ReceivedMessage


class IdempotenceError(PopMQClientError):
    pass


def describe(message: ReceivedMessage) -> str:
    return f"message {message.message_id} of topic {message.topic}, group {message.group}"


class KeyMissing(IdempotenceError):
    def __init__(self, message: ReceivedMessage, why: str) -> None:
        super().__init__(f"{describe(message)} has no key: {why}")
        self.message = message
        self.why = why


class PayloadMismatch(IdempotenceError):
    def __init__(self, message: ReceivedMessage, scope: str, key: str) -> None:
        super().__init__(
            f"{describe(message)} has the key {key!r} of an earlier one in {scope!r}, "
            "but another payload; give each kind of message keys or a scope of its own"
        )
        self.message = message
        self.scope = scope
        self.key = key


class OutsideTurn(IdempotenceError):
    def __init__(self) -> None:
        super().__init__("no message is being handled here: use it inside run() or once()")


class InboxTableMissing(IdempotenceError):
    def __init__(self, table: str) -> None:
        super().__init__(
            f"the table {table!r} is missing: await inbox.create_table(), or add inbox.table to "
            "your migrations"
        )
        self.table = table


class RowMissing(IdempotenceError):
    def __init__(self, table: str, row: object) -> None:
        super().__init__(f"{table} has no row {row!r}")
        self.table = table
        self.row = row


class UnknownState(IdempotenceError):
    def __init__(self, table: str, state: object) -> None:
        super().__init__(f"{state!r} is no state of the machine of {table}")
        self.state = state


class Fenced(IdempotenceError):
    """Somebody holds the lock with a newer token: this holder was too slow."""

    retriable = True

    def __init__(self, table: str, row: object, token: int) -> None:
        super().__init__(f"{table} row {row!r} was claimed with a newer token than {token}")
        self.row = row
        self.token = token
