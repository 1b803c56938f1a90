"""Messages and queues that people name by position: QUEUE, QUEUE:OFFSET, or with a broker.

Each broker has a queue 0 of its own, so without the broker's name there may be several.
"""

from typing import TYPE_CHECKING, NoReturn

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.shell.connection import TIMEOUT_S
from popmq_cli.shell.output import fail
from popmq_cli.shell.parameters import MessagePosition, QueueRef
from popmq_common.records.names import DEAD_LETTER_PREFIX

if TYPE_CHECKING:
    from popmq_admin.v1 import admin_pb2_grpc as admin_grpc


async def message_at(
    stub: "admin_grpc.AdminAsyncStub",
    topic: str,
    position: MessagePosition,
    *,
    system: bool = False,
) -> admin.StoredMessage | None:
    """None: there is none. Ends the command where several brokers have one."""
    asked = admin.GetMessageRequest(
        topic=topic,
        queue_id=position.queue_id,
        offset=position.offset,
        broker=position.broker,
        system=system,
    )
    found = (await stub.GetMessage(asked, timeout=TIMEOUT_S)).messages
    if len(found) > 1:
        what = f"a message at offset {position.offset} of queue {position.queue_id}"
        _several([one.broker for one in found], what, "BROKER:QUEUE:OFFSET")
    return found[0] if found else None


async def id_in_topic(
    stub: "admin_grpc.AdminAsyncStub",
    topic: str,
    wanted: str | MessagePosition,
    *,
    system: bool = False,
) -> str:
    """The message's id. Ends the command where there is none."""
    if isinstance(wanted, str):
        return wanted
    found = await message_at(stub, topic, wanted, system=system)
    if found is None:
        fail(f"topic {topic} has no {described(wanted)}")
    return found.message_id


async def dead_letter_at(
    stub: "admin_grpc.AdminAsyncStub", group: str, position: MessagePosition
) -> admin.StoredMessage | None:
    """None: there is none."""
    return await message_at(stub, f"{DEAD_LETTER_PREFIX}{group}", position, system=True)


async def id_of_dead_letter(
    stub: "admin_grpc.AdminAsyncStub", group: str, wanted: str | MessagePosition
) -> str:
    """The message's id. Ends the command where there is none."""
    if isinstance(wanted, str):
        return wanted
    found = await dead_letter_at(stub, group, wanted)
    if found is None:
        no_dead_letter(group, wanted)
    return found.message_id


async def broker_of(stub: "admin_grpc.AdminAsyncStub", topic: str, queue: QueueRef) -> str:
    """The broker's name. Ends the command where none or several have the queue."""
    if queue.broker:
        return queue.broker
    shown = await stub.DescribeTopic(admin.DescribeTopicRequest(name=topic), timeout=TIMEOUT_S)
    brokers = [one.broker for one in shown.queues if one.queue_id == queue.queue_id]
    if not brokers:
        fail(f"topic {topic} has no queue {queue.queue_id}")
    if len(brokers) > 1:
        _several(brokers, f"a queue {queue.queue_id}", "BROKER:QUEUE")
    return brokers[0]


def described(wanted: str | MessagePosition) -> str:
    if isinstance(wanted, MessagePosition):
        return f"message at offset {wanted.offset} of queue {wanted.queue_id}"
    return f"message {wanted}"


def no_dead_letter(group: str, wanted: str | MessagePosition) -> NoReturn:
    fail(f"group {group} has no dead letter {wanted}; popmq dlq list {group} lists them")


def _several(brokers: list[str], what: str, form: str) -> NoReturn:
    fail(f"brokers {', '.join(sorted(brokers))} have {what}; say which: {form}")
