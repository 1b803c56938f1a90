"""What messages like each other share, found out once and kept: their system properties, and the
names of their user properties."""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import PopMQError
from popmq_common.records import properties as names
from popmq_proxy.core.messages.outgoing import record as record_of
from popmq_proxy.core.sends.message_fields import LONG, IsUnusual

TEMPLATES_MAX: Final = 1_024
VALUE_END: Final = names.VALUE_END.encode()
UNIQ_KEY: Final = (names.UNIQ_KEY + names.NAME_END).encode()

_Key = TypeVar("_Key")
_Made = TypeVar("_Made")
Check = Callable[[v2.Message], str]
"""A message's type. Raises what is wrong with it."""
TemplateKey = tuple[int, bytes, bytes, bytes, bool]
"""The message id's length, the fields before it, behind it and behind the born time, and whether
there is a message group."""


class PropertyTemplate(NamedTuple):
    """What all messages share that have the same tag, encoding, type and born host."""

    tags: bytes
    born_host: bytes
    behind_id: bytes
    """The property string behind the message id, of a message that has nothing else."""
    sys_flag: int


class PropertyTemplates:
    def __init__(self, check: Check) -> None:
        """`check` is asked once for each template, with a message of one byte."""
        self._check = check
        self._templates: dict[TemplateKey, PropertyTemplate] = {}
        self._user_formats: dict[tuple[bytes, ...], bytes] = {}

    def of(self, key: TemplateKey) -> PropertyTemplate:
        """Raises `IsUnusual`."""
        return self._templates.get(key) or self._make_template(key)

    def user_format(self, found_names: tuple[bytes, ...]) -> bytes:
        """Their part of a property string, with %b for each value. Raises `IsUnusual`,
        `UnicodeDecodeError`."""
        return self._user_formats.get(found_names) or self._make_user_format(found_names)

    def _make_template(self, key: TemplateKey) -> PropertyTemplate:
        """Raises `IsUnusual` for messages that are like no others, or not right: protobuf reads
        them."""
        id_bytes, before, between, after, has_group = key
        message = v2.Message(body=b"?")
        system = message.system_properties
        try:
            for part in (before, between, after):
                system.MergeFromString(part)
        except DecodeError:  # not a whole number of fields: what was found is no born time
            raise IsUnusual from None
        if system.message_id or system.HasField("born_timestamp") or id_bytes >= LONG:
            raise IsUnusual
        if system.HasField("message_group"):
            raise IsUnusual
        system.message_id = "0" * id_bytes
        try:
            made = record_of(message, "")
            if has_group:
                system.message_group = "g"
            kind = self._check(message)
        except PopMQError:
            raise IsUnusual from None
        tags = names.encode({names.TAGS: system.tag}) if system.tag else b""
        head = UNIQ_KEY + system.message_id.encode() + VALUE_END + tags
        if kind != ("FIFO" if has_group else "NORMAL") or not made.properties.startswith(head):
            raise IsUnusual
        host = made.properties[len(head) :]
        template = PropertyTemplate(tags, host, VALUE_END + tags + host, made.sys_flag)
        _keep(self._templates, key, template)
        return template

    def _make_user_format(self, found_names: tuple[bytes, ...]) -> bytes:
        """Raises `IsUnusual`, `UnicodeDecodeError`."""
        texts = [name.decode() for name in found_names]
        if len(set(texts)) != len(texts):
            raise IsUnusual
        if any(not text or not text.isprintable() or text in names.INTERNAL for text in texts):
            raise IsUnusual
        form = "".join(
            f"{text.replace('%', '%%')}{names.NAME_END}%b{names.VALUE_END}" for text in texts
        ).encode()
        _keep(self._user_formats, found_names, form)
        return form


def _keep(kept: dict[_Key, _Made], key: _Key, made: _Made) -> None:
    if len(kept) >= TEMPLATES_MAX:
        kept.clear()
    kept[key] = made
