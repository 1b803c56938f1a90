"""What does a mask hide, and can what it hides come out another way?"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.masks import HIDDEN, Masks, WrongMaskFile, masked_body, read_masks

FILE = """
[[mask]]
topics = ["orders", "pay_*"]
body = ["$.card.number", "$.customers[*].email"]

[[mask]]
topics = ["orders"]
properties = ["phone"]
"""


@pytest.fixture
def masks(tmp_path: Path) -> Masks:
    file = tmp_path / "masks.toml"
    file.write_text(FILE)
    return read_masks(file)


def found(topic: str, body: bytes, *, size: int | None = None, **properties: str) -> Any:
    message = admin.StoredMessage(
        topic=topic, body=body, body_bytes=size or len(body), properties=properties
    )
    return admin.FindMessagesResponse(messages=[message])


def body_after(masks: Masks, answer: Any) -> str:
    masks.apply(answer)
    return str(answer.messages[0].body.decode())


CARD = b'{"card": {"number": "4711", "name": "A"}, "customers": [{"email": "x"}, {"id": 1}]}'
MASKED = '{"card": {"number": "***", "name": "A"}, "customers": [{"email": "***"}, {"id": 1}]}'


@pytest.mark.parametrize(
    ("topic", "properties"),
    [
        ("orders", {}),
        ("pay_in", {}),
        ("%RETRY%a_group_pay_in", {}),
        ("%DLQ%g", {"DLQ_ORIGIN_TOPIC": "orders"}),
        ("rmq_sys_wheel_timer", {"REAL_TOPIC": "orders"}),
        ("%RETRY%g", {"RETRY_TOPIC": "orders"}),
    ],
)
def test_wherever_a_message_of_the_topic_lies(
    masks: Masks, topic: str, properties: dict[str, str]
) -> None:
    assert body_after(masks, found(topic, CARD, size=None, **properties)) == MASKED


def test_other_topics_are_left_alone(masks: Masks) -> None:
    assert body_after(masks, found("other", CARD)) == CARD.decode()
    assert body_after(Masks(), found("orders", CARD)) == CARD.decode()


def test_properties(masks: Masks) -> None:
    answer = found("orders", b"", phone="0123", lane="3")
    masks.apply(answer)
    assert dict(answer.messages[0].properties) == {"phone": "***", "lane": "3"}


def test_dead_letters_too(masks: Masks) -> None:
    letter = admin.DeadLetter(topic="orders", body=CARD, body_bytes=len(CARD))
    answer = admin.ListDeadLettersResponse(letters=[letter])
    masks.apply(answer)
    assert answer.letters[0].body.decode() == MASKED


@pytest.mark.parametrize(
    "body", [b"card 4711", b"\xff\x00", b'{"card":', b"[" * 100_000, b'{"card": NaN, }']
)
def test_what_is_not_json_is_hidden(masks: Masks, body: bytes) -> None:
    assert body_after(masks, found("orders", body)) == HIDDEN


def test_the_beginning_of_a_body_is_hidden(masks: Masks) -> None:
    assert body_after(masks, found("orders", CARD, size=len(CARD) + 1)) == HIDDEN


def test_a_second_path_below_what_the_first_hid(tmp_path: Path) -> None:
    file = tmp_path / "masks.toml"
    file.write_text('[[mask]]\ntopics=["t"]\nbody=["$.a", "$.a.b", "$..c", "$"]\n')
    masks = read_masks(file)
    assert body_after(masks, found("t", b'{"a": {"b": {"c": 1}}, "c": 2}')) == '"***"'


def test_without_a_path_a_body_stays_as_it_is() -> None:
    assert masked_body(b'{"a": 1}', 8, []) == b'{"a": 1}'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mask", "is not TOML"),
        ("", "write tables"),
        ("x = 1", "write tables"),
        ("mask = [1]", "its fields are"),
        ('[[mask]]\nbody = ["$.a"]', "it needs topics"),
        ('[[mask]]\ntopics = ["t"]', "it needs topics"),
        ('[[mask]]\ntopics = "t"\nbody = ["$.a"]', "topics is a list of texts"),
        ('[[mask]]\ntopics = ["t"]\nbody = ["$.a["]', "'$.a[' is no JSONPath"),
        ('[[mask]]\ntopics = ["t"]\nbodies = ["$.a"]', "its fields are"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "masks.toml"
    file.write_text(text)
    with pytest.raises(WrongMaskFile, match=r"masks\.toml") as wrong:
        read_masks(file)
    assert why in str(wrong.value)


def messages_below(kind: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    for field in kind.fields:
        if field.message_type is not None and depth < 6:
            yield depth, field
            yield from messages_below(field.message_type, depth + 1)


def test_no_answer_has_bodies_anywhere_else() -> None:
    """A call that comes later is masked, or fails here."""
    service = admin.DESCRIPTOR.services_by_name["Admin"]
    for method in service.methods:
        answer = method.output_type
        assert "body" not in answer.fields_by_name, method.name
        for depth, field in messages_below(answer):
            if "body" in field.message_type.fields_by_name:
                assert field.message_type.name in ("StoredMessage", "DeadLetter"), method.name
                assert depth == 0, method.name
                assert field.is_repeated, method.name
