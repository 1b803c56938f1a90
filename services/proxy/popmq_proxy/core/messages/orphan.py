"""A half message → the command that asks a producer what has become of its transaction.

Official clients want the whole message, as it would be delivered, digest and encoding included.

Source: RocketMQ GrpcClientChannel, GrpcConverter. Differs: none known.
"""

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.records import properties as names
from popmq_common.records import record
from popmq_proxy.core.messages.delivery import DeliveryEncoder
from popmq_proxy.core.messages.status import OK

_REAL_QUEUE = f"{names.REAL_QUEUE_ID}{names.NAME_END}".encode()


def recover_command(
    topic: v2.Resource, data: bytes, transaction_id: str
) -> service.TelemetryCommand:
    """`topic` as the client named it; `data`: the half message's record, which is whole."""
    response = service.ReceiveMessageResponse.FromString(
        DeliveryEncoder(topic, 0).response("", data)
    )
    message = response.message
    system = message.system_properties
    system.ClearField("receipt_handle")
    system.ClearField("invisible_duration")
    system.message_type = v2.TRANSACTION
    system.queue_id = _real_queue(data)
    return service.TelemetryCommand(
        status=OK,
        recover_orphaned_transaction_command=service.RecoverOrphanedTransactionCommand(
            message=message, transaction_id=transaction_id
        ),
    )


def _real_queue(data: bytes) -> int:
    where = record.own_offset(data)
    stored = record.decode(data, where="link", log_offset=where, check_crc=False)
    return int(names.value_of(stored.properties, _REAL_QUEUE) or 0)
