"""Messages for the tests of idempotence."""

from popmq import ReceivedMessage


def message(
    key: str | None = "order-1",
    body: bytes = b"{}",
    *,
    group: str = "billing",
    properties: dict[str, str] | None = None,
) -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders",
        group=group,
        body=body,
        message_id="01AB",
        tag=None,
        keys=() if key is None else (key,),
        properties=properties or {},
        message_group=None,
        deliver_at_ms=None,
        delivery_attempt=1,
        born_timestamp_ms=0,
        store_timestamp_ms=0,
        broker="b",
        queue_id=0,
        queue_offset=0,
        receipt_handle="h",
    )


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s
