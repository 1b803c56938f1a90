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
from popmq.orderly import OrderlyConsumer
from popmq.outcome import Reject, Retry
from popmq.pull import PullConsumer, Start
from popmq.push import PushConsumer
from popmq.send_back import RetryAtLevel
from popmq.shares import Queue, Strategy
from popmq.transaction import HalfMessage, Resolution

__all__ = [
    "BroadcastConsumer",
    "BrokerUnavailable",
    "Client",
    "Credentials",
    "GroupNotFound",
    "HalfMessage",
    "InvalidReceiptHandle",
    "Message",
    "OrderlyConsumer",
    "PopMQClientError",
    "PullConsumer",
    "PushConsumer",
    "Queue",
    "ReceivedMessage",
    "RefusedByServer",
    "Reject",
    "Resolution",
    "Retry",
    "RetryAtLevel",
    "SendReceipt",
    "ServerUnreachable",
    "Start",
    "Strategy",
    "TooManyRequests",
    "TopicNotFound",
]
