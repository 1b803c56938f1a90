"""PopMQ's client: send, receive, ack over apache.rocketmq.v2, with any server that speaks it.

`nack` and `reject` need a PopMQ server.
"""

from popmq._core.signature import Credentials
from popmq.broadcast import BroadcastConsumer
from popmq.client import Client
from popmq.errors import (
    BrokerUnavailable,
    GroupNotFound,
    InvalidReceiptHandle,
    PopMQClientError,
    RefusedByServer,
    ServerUnreachable,
    TooManyRequests,
    TopicNotFound,
)
from popmq.message import Message, ReceivedMessage, SendReceipt
from popmq.pull import PullConsumer, Start
from popmq.shares import Queue, Strategy

__all__ = [
    "BroadcastConsumer",
    "BrokerUnavailable",
    "Client",
    "Credentials",
    "GroupNotFound",
    "InvalidReceiptHandle",
    "Message",
    "PopMQClientError",
    "PullConsumer",
    "Queue",
    "ReceivedMessage",
    "RefusedByServer",
    "SendReceipt",
    "ServerUnreachable",
    "Start",
    "Strategy",
    "TooManyRequests",
    "TopicNotFound",
]
