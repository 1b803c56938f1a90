"""Our protos are wire-identical to the published ones: every name, number and type."""

import json
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from apache.rocketmq.v2 import admin_pb2, definition_pb2, service_pb2

TABLE = json.loads((Path(__file__).parent / "protocol_v2.json").read_text())
FILES = [definition_pb2.DESCRIPTOR, service_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR]
PACKAGE = TABLE["package"] + "."
SCALARS = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_STRING: "string",
}


def published(descriptor: Any) -> str:
    """Its name on paper: in protobuf's pool all have a name of ours (proto/generate.py)."""
    name: str = descriptor.full_name
    return name.removeprefix("popmq.")


def short(descriptor: Any) -> str:
    return published(descriptor).removeprefix(PACKAGE)


def all_messages(found: Any) -> dict[str, Descriptor]:
    messages: dict[str, Descriptor] = {}
    for message in found:
        if not message.GetOptions().map_entry:
            messages[short(message)] = message
            messages |= all_messages(message.nested_types)
    return messages


MESSAGES = {k: v for f in FILES for k, v in all_messages(f.message_types_by_name.values()).items()}
ENUMS: dict[str, EnumDescriptor] = {
    short(enum): enum for file in FILES for enum in file.enum_types_by_name.values()
} | {short(enum): enum for message in MESSAGES.values() for enum in message.enum_types}
SERVICES = {short(s): s for file in FILES for s in file.services_by_name.values()}


def type_name(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            return f"map<{type_name(key)}, {type_name(value)}>"
        return published(field.message_type)
    if field.enum_type is not None:
        return published(field.enum_type)
    return SCALARS[field.type]


def described(field: FieldDescriptor) -> dict[str, Any]:
    oneof = field.containing_oneof
    synthetic = oneof is not None and oneof.name == f"_{field.name}"
    row: dict[str, Any] = {
        "number": field.number,
        "name": field.name,
        "type": type_name(field),
        "repeated": field.is_repeated,
        "optional": synthetic,
    }
    if oneof is not None and not synthetic:
        row["oneof"] = oneof.name
    return row


def by_number(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["number"])


def test_messages_and_fields() -> None:
    ours = {
        name: by_number([described(field) for field in message.fields])
        for name, message in MESSAGES.items()
    }
    assert ours == {name: by_number(rows) for name, rows in TABLE["messages"].items()}


def test_enums() -> None:
    ours = {name: {v.name: v.number for v in enum.values} for name, enum in ENUMS.items()}
    assert ours == TABLE["enums"]


def test_services() -> None:
    ours = {
        name: {
            method.name: {
                "input": published(method.input_type),
                "output": published(method.output_type),
                "client_streaming": method.client_streaming,
                "server_streaming": method.server_streaming,
            }
            for method in service.methods
        }
        for name, service in SERVICES.items()
    }
    assert ours == TABLE["services"]
