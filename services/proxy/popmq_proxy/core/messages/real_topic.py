"""The topic that a message is of which a group pulls from its %RETRY% topic.

What was sent back names it. Anything else there, somebody has sent by himself, and keeps the name
of the retry topic.

Source: RocketMQ DefaultMQPushConsumerImpl.resetRetryAndNamespace; there the client does it.
"""

from typing import Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.records import properties as names
from popmq_common.records import record
from popmq_proxy.core.messages.resource import in_namespace

_RETRY_TOPIC: Final = f"{names.RETRY_TOPIC}{names.NAME_END}".encode()


def real_topic(data: bytes, pulled: v2.Resource, namespace: str) -> v2.Resource:
    """`data`: the record, which is whole; `namespace`: of the client."""
    own_offset = record.own_offset(data)
    stored = record.decode(data, where="link", log_offset=own_offset, check_crc=False)
    name = names.value_of(stored.properties, _RETRY_TOPIC)
    return pulled if name is None else in_namespace(name, namespace)
