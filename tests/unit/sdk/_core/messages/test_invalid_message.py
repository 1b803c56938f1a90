"""What users get wrong is refused where they wrote it, in words that say what to do."""

import functools
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq import App, Client, Json, Message, ReceivedMessage
from popmq._core.messages import convert
from popmq._core.messages.encode import MessageEncoder
from popmq.producer.sending import Sending

TOPIC = v2.Resource(name="t")


def by_hand(message: Message) -> v2.Message:
    connection: Any = None
    entry = Sending(connection, connection).draft(MessageEncoder(TOPIC), message)
    return service.SendMessageRequest.FromString(entry).messages[0]


def by_protobuf(message: Message) -> v2.Message:
    return convert.outgoing(message, TOPIC, "01AB", 1_000)


@pytest.mark.parametrize("write", [by_hand, by_protobuf])
def test_one_key_may_be_written_without_a_list(write: Callable[[Message], v2.Message]) -> None:
    assert list(write(Message(body=b"x", keys="order-1")).system_properties.keys) == ["order-1"]
    assert list(write(Message(body=b"x", keys="")).system_properties.keys) == []


WRONG_MESSAGES: list[tuple[dict[str, Any], str]] = [
    (
        {"body": "text"},
        r"a body is bytes, not str: encode it, or take a producer with a serializer",
    ),
    ({"body": {"a": 1}}, "a body is bytes, not dict"),
    ({"body": None}, "a body is bytes, not NoneType"),
    ({"properties": {"n": 1}}, r"property 'n' is of type int: properties are text, str\(1\)"),
    ({"properties": {1: "n"}}, "property 1 is of type int: names of properties are text"),
    ({"properties": "n=1"}, "properties are a dictionary of text, not str"),
    ({"keys": [1]}, r"key 1 is of type int: keys are text, str\(1\)"),
    ({"keys": 1}, "keys are one text or several, not int"),
    ({"tag": 1}, "a tag is text, not int"),
    ({"message_group": 7}, "a message group is text, not int"),
    ({"delay_s": "5"}, "delay_s is a number of seconds, not str"),
    ({"deliver_at": 1_700_000_000}, "deliver_at is a datetime, not int"),
]


@pytest.mark.parametrize("write", [by_hand, by_protobuf])
@pytest.mark.parametrize(("wrong", "words"), WRONG_MESSAGES)
def test_a_wrong_message(
    wrong: dict[str, Any], words: str, write: Callable[[Message], v2.Message]
) -> None:
    with pytest.raises(TypeError, match=words):
        write(Message(**{"body": b"x", **wrong}))


@pytest.mark.parametrize("write", [by_hand, by_protobuf])
def test_two_times_are_one_too_many(write: Callable[[Message], v2.Message]) -> None:
    with pytest.raises(ValueError, match="not both"):
        write(Message(body=b"x", delay_s=1, deliver_at=datetime.now()))


# handlers


def nothing() -> None: ...
def two(message: ReceivedMessage, more: int) -> None: ...
def three(value: object, message: ReceivedMessage, more: int) -> None: ...
def keyword(message: ReceivedMessage, *, more: int) -> None: ...
def of_a_dict(order: dict[str, int]) -> None: ...
def of_an_order(order: int) -> None: ...
def message_first(message: ReceivedMessage, value: object) -> None: ...
def of_a_message(message: ReceivedMessage) -> None: ...


async def generator(message: ReceivedMessage) -> AsyncIterator[None]:
    yield


WRONG_HANDLERS: list[tuple[Any, dict[str, Any], str]] = [
    (nothing, {}, r"handler nothing\(\) takes no message"),
    (
        two,
        {},
        r"two\(message, more\) is called with a message, without serializer=: nobody .* 'more'",
    ),
    (keyword, {}, "nobody gives it 'more'"),
    (of_an_order, {}, r"of_an_order\(order\) .*serializer="),
    (of_a_dict, {}, r"of_a_dict\(order\) .*serializer="),
    (nothing, {"serializer": Json()}, "takes no value"),
    (three, {"serializer": Json()}, "nobody gives it 'more'"),
    (of_a_message, {"serializer": Json()}, "takes no value"),
    (message_first, {"serializer": Json()}, "the value is first"),
    (generator, {}, "yield"),
    ("bill", {}, "'bill' is no function"),
    (of_a_message, {"concurrency": 0}, "concurrency"),
    (of_a_message, {"lease_s": 0}, "lease_s"),
    (of_a_message, {"retry": []}, "retry"),
    (of_a_message, {"retry": 5}, "retry"),
    (of_a_message, {"filter": "a", "sql": "b > 1"}, "filter or sql"),
]


@pytest.mark.parametrize(("function", "how", "words"), WRONG_HANDLERS)
def test_a_wrong_handler(function: Any, how: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        App().handler("t", "g", **how)(function)


def test_a_handler_without_parentheses() -> None:
    app: Any = App()
    with pytest.raises(TypeError, match=r"@app\.handler\(topic, group\)"):
        app.handler(of_a_message, "g")
    with pytest.raises(TypeError, match="a group is text, not NoneType"):
        app.handler("t", None)
    with pytest.raises(ValueError, match="a topic has a name"):
        app.handler("", "g")


async def test_a_wrong_app() -> None:
    with pytest.raises(TypeError, match="consumer_threads"):
        App(consumer_threads=20)
    with pytest.raises(ValueError, match="tls=True"):
        App("http://localhost", tls=True)
    with pytest.raises(ValueError, match="is no endpoint"):
        App("ftp://localhost")
    async with Client() as client:
        with pytest.raises(TypeError, match=r"namespace: the client .* has its own"):
            App(client, namespace="shop")


def test_a_group_has_one_handler_for_a_topic() -> None:
    app = App()
    app.handler("t", "g")(of_a_message)
    app.handler("t", "other")(of_a_message)
    app.handler("u", "g")(of_a_message)
    with pytest.raises(ValueError, match="group g has a handler for topic t: of_a_message"):
        app.handler("t", "g", filter="tag")(of_a_message)


class Callable_:
    async def __call__(self, message: ReceivedMessage) -> None: ...


def test_what_may_be_a_handler() -> None:
    async def with_a_default(message: ReceivedMessage, retries: int = 3) -> None: ...
    async def of_anything(*arguments: Any) -> None: ...
    async def unannotated(m): ...  # type: ignore[no-untyped-def]
    async def of_bytes(body: bytes) -> None: ...

    app: Any = App()
    partial = functools.partial(two, more=1)
    plain = [
        with_a_default,
        of_anything,
        unannotated,
        of_bytes,
        Callable_(),
        partial,
        lambda m: None,
    ]
    for number, function in enumerate(plain):
        app.handler("t", f"g-{number}")(function)
