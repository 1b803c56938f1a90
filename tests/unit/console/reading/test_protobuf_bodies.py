"""Are Protobuf bodies shown as what they are, and what happens with bytes that are none?"""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import any_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading import protobuf_bodies as it
from popmq_console.reading.bodies_shown import head_of, shown_message
from popmq_console.reading.masks import HIDDEN
from popmq_console.reading.protobuf_bodies import ProtobufTypes, WrongTypes, read_protobuf_types

STRING, INT64, MESSAGE = 9, 3, 11
ORDER = b"\x0a\x03A-1\x10\x07"
"""id: "A-1", count: 7"""


def files() -> list[FileDescriptorProto]:
    """shop/order.proto imports Google's Timestamp and Any."""
    order = FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    imported: list[Any] = [timestamp_pb2, any_pb2]
    order.dependency.extend(one.DESCRIPTOR.name for one in imported)
    message = order.message_type.add(name="Order")
    for number, (name, kind, type_name) in enumerate(
        [
            ("order_id", STRING, ""),
            ("count", INT64, ""),
            ("at", MESSAGE, ".google.protobuf.Timestamp"),
            ("more", MESSAGE, ".google.protobuf.Any"),
        ],
        1,
    ):
        made = message.field.add(name=name, number=number, type=kind, label=1)
        if type_name:
            made.type_name = type_name
    found = [order]
    for one in imported:
        copied = FileDescriptorProto()
        one.DESCRIPTOR.CopyToProto(copied)
        found.append(copied)
    return found


def written(folder: Path, *protos: FileDescriptorProto) -> Path:
    file = folder / "types.pb"
    file.write_bytes(FileDescriptorSet(file=protos).SerializeToString())
    return file


@pytest.fixture
def types(tmp_path: Path) -> ProtobufTypes:
    return read_protobuf_types(written(tmp_path, *files()), ["orders*=shop.Order"])


def stored(body: bytes, topic: str = "orders", **properties: str) -> admin.StoredMessage:
    return admin.StoredMessage(topic=topic, body=body, body_bytes=len(body), properties=properties)


def test_a_body_is_shown_as_json_of_its_type(types: ProtobufTypes) -> None:
    shown = shown_message(stored(ORDER), types)
    assert (shown.kind, shown.size_bytes, shown.note) == ("shop.Order", 7, "")
    assert shown.text == '{\n  "order_id": "A-1",\n  "count": "7"\n}'
    assert head_of(stored(ORDER), types) == '{ "order_id": "A-1", "count": "7" }'


@pytest.mark.parametrize(
    ("topic", "properties"),
    [
        ("orders-eu", {}),
        ("%RETRY%billing_orders", {}),
        ("%DLQ%billing", {"DLQ_ORIGIN_TOPIC": "orders"}),
    ],
)
def test_retries_and_dead_letters_have_the_type_of_their_topic(
    types: ProtobufTypes, topic: str, properties: dict[str, str]
) -> None:
    assert shown_message(stored(ORDER, topic, **properties), types).kind == "shop.Order"


def test_other_topics_have_none(types: ProtobufTypes) -> None:
    assert shown_message(stored(ORDER, "payments"), types).kind == "bytes"
    assert shown_message(stored(ORDER), ProtobufTypes()).kind == "bytes"


def test_bytes_of_no_message_are_shown_as_bytes_with_a_note(types: ProtobufTypes) -> None:
    shown = shown_message(stored(b"\x0a\xff"), types)
    assert (shown.kind, shown.hex[:6]) == ("bytes", "000000")
    assert shown.note == "Not shown as shop.Order: it is no message of this type."
    assert head_of(stored(b"\x0a\xff"), types) == "0a ff …"


def test_fields_that_the_type_lacks_are_told(types: ProtobufTypes) -> None:
    shown = shown_message(stored(ORDER + b"\x92\x06\x01x"), types)
    assert "fields that this type lacks" in shown.note


def test_an_any_of_an_unknown_type_is_shown_all_the_same(types: ProtobufTypes) -> None:
    packed = any_pb2.Any(type_url="type.googleapis.com/shop.None", value=b"\x08\x01")
    data = packed.SerializeToString()
    shown = shown_message(stored(ORDER + b"\x22" + bytes([len(data)]) + data), types)
    assert shown.text is not None
    assert 'order_id: "A-1"' in shown.text
    assert "shop.None" in shown.text


def test_what_is_cut_or_hidden_is_not_decoded(types: ProtobufTypes) -> None:
    cut = stored(ORDER)
    cut.body_bytes = 99
    assert shown_message(cut, types).kind == "bytes"
    hidden = shown_message(stored(HIDDEN.encode()), types)
    assert (hidden.kind, hidden.text, hidden.note) == ("text", HIDDEN, "")


def test_a_large_body_holds_up_nobody(
    types: ProtobufTypes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it, "BODY_BYTES_MAX", 3)
    assert "more than 3 bytes" in shown_message(stored(ORDER), types).note


def test_a_message_within_itself_a_thousand_times_is_refused(tmp_path: Path) -> None:
    """Protobuf's parser has a limit; JSON would run out of stack."""
    deep = FileDescriptorProto(name="deep.proto", syntax="proto3")
    message = deep.message_type.add(name="Deep")
    message.field.add(name="inner", number=1, type=MESSAGE, label=1, type_name=".Deep")
    types = read_protobuf_types(written(tmp_path, deep), ["t=Deep"])
    body = b""
    for _ in range(1_000):
        size = len(body)
        length = bytes([size & 0x7F | 0x80, size >> 7]) if size > 127 else bytes([size])
        body = b"\x0a" + length + body
    assert "no message of this type" in shown_message(stored(body, "t"), types).note
    assert shown_message(stored(body[-40:], "t"), types).kind == "Deep"


def test_files_come_in_any_order_and_all_have_to_be_there(tmp_path: Path) -> None:
    order, *others = files()
    read_protobuf_types(written(tmp_path, *others, order), ["t=shop.Order"])
    with pytest.raises(WrongTypes, match=r"lacks google/protobuf/.*--include_imports"):
        read_protobuf_types(written(tmp_path, order), ["t=shop.Order"])
    circle = [
        FileDescriptorProto(name="a", dependency=["b"]),
        FileDescriptorProto(name="b", dependency=["a"]),
    ]
    with pytest.raises(WrongTypes, match="import each other"):
        read_protobuf_types(written(tmp_path, *circle), [])


@pytest.mark.parametrize(
    ("topic_type", "why"),
    [
        ("orders", "write TOPIC=package.Message"),
        ("=shop.Order", "write TOPIC=package.Message"),
        ("orders=", "write TOPIC=package.Message"),
        ("orders=shop.None", "has no message shop.None"),
    ],
)
def test_a_type_that_is_not_there_is_refused(tmp_path: Path, topic_type: str, why: str) -> None:
    with pytest.raises(WrongTypes, match=why):
        read_protobuf_types(written(tmp_path, *files()), [topic_type])


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"not a descriptor set"])
def test_a_file_that_is_no_descriptor_set_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "types.pb"
    file.write_bytes(content)
    with pytest.raises(WrongTypes, match="write one with protoc"):
        read_protobuf_types(file, [])


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(it, "FILE_BYTES_MAX", 10)
    with pytest.raises(WrongTypes, match="more than 10 bytes"):
        read_protobuf_types(written(tmp_path, *files()), [])
