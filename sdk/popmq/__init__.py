"""PopMQ's client: send, receive, ack over apache.rocketmq.v2, with any server that speaks it.

Three levels: `Client` makes single calls; its `producer()` and `consumer()` share requests and
renew leases; `App` gives messages to handlers. `popmq.sync` is for code without asyncio.

`nack` and `reject` need a PopMQ server.
"""

from popmq._core.message_inspection import Place
from popmq._core.topology import DeadLetter, Exponential, Group, Topic
from popmq.access.credentials import Credentials
from popmq.app.app import App
from popmq.client import Client
from popmq.connection.endpoints import Tls
from popmq.consumer.consumer import Consumer
from popmq.errors import (
    AccessDenied,
    BrokerUnavailable,
    ClientClosed,
    Forbidden,
    GroupNotFound,
    InvalidReceiptHandle,
    NotAllSent,
    NotHeld,
    PopMQClientError,
    RefusedByServer,
    ServerUnreachable,
    TooManyRequests,
    TopicNotFound,
    Unauthorized,
    UnusableSettings,
)
from popmq.handle_once import Idempotence
from popmq.message import Message, ReceivedMessage
from popmq.outcome import Reject, Retry
from popmq.producer.producer import Producer
from popmq.producer.transaction import HalfMessage, Resolution
from popmq.pull.assignment import Queue, Strategy
from popmq.pull.broadcast import BroadcastConsumer
from popmq.pull.offset_store import Start
from popmq.pull.orderly import OrderlyConsumer
from popmq.pull.pull import PullConsumer
from popmq.pull.push import PushConsumer
from popmq.pull.send_back import RetryAtLevel
from popmq.send_receipt import SendReceipt
from popmq.serializer import Json, Model, Serializer

__all__ = [
    "AccessDenied",
    "App",
    "BroadcastConsumer",
    "BrokerUnavailable",
    "Client",
    "ClientClosed",
    "Consumer",
    "Credentials",
    "DeadLetter",
    "Exponential",
    "Forbidden",
    "Group",
    "GroupNotFound",
    "HalfMessage",
    "Idempotence",
    "InvalidReceiptHandle",
    "Json",
    "Message",
    "Model",
    "NotAllSent",
    "NotHeld",
    "OrderlyConsumer",
    "Place",
    "PopMQClientError",
    "Producer",
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
    "Serializer",
    "ServerUnreachable",
    "Start",
    "Strategy",
    "Tls",
    "TooManyRequests",
    "Topic",
    "TopicNotFound",
    "Unauthorized",
    "UnusableSettings",
]
