"""SendMessage requests of NORMAL and FIFO messages, read without an object per message.

Most messages are like the one before: the same topic, tag, encoding, type and born host. So the
bytes of a message's system properties are cut into

    tag │ keys │ message_id │ between │ born_timestamp │ born_host, queue_id │ group, trace

and what tag, between and born_host mean is found out once, by the same checks that every message
passes, and kept as a `PropertyTemplate`. Keys, message group, trace context and user properties
are copied to where a record has them; the names of user properties are looked at once. Whatever
else a message has (a delivery time, a transaction), and whatever is unusual in its encoding, makes
a request none of these: then protobuf reads it. 3 to 6 µs a message, where the objects and checks
take 7 to 14.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.link.sends import OutgoingRecord
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_internal.v1 import send_view_pb2 as send_view
from popmq_proxy.core.messages.convert import millis
from popmq_proxy.core.messages.outgoing import LATEST_MS
from popmq_proxy.core.messages.validate import MessageLimits
from popmq_proxy.core.sends.message_fields import (
    LONG,
    QUEUE_IDS,
    IsUnusual,
    end_of_queue_id,
    group_and_trace,
    keys_of,
    user_entries,
)
from popmq_proxy.core.sends.property_templates import (
    UNIQ_KEY,
    VALUE_END,
    Check,
    PropertyTemplate,
    PropertyTemplates,
)

_TAG_TAG: Final = 0x0A
_KEY_TAG: Final = 0x12
_ID_TAG: Final = 0x1A
_BORN_TAG: Final = b"\x3a"
_HOST_TAG: Final = 0x42
_KEYS: Final = (names.KEYS + names.NAME_END).encode()
_GROUP: Final = (names.SHARDING_KEY + names.NAME_END).encode()
_TRACE: Final = (names.TRACE_CONTEXT + names.NAME_END).encode()

_Decoded = tuple[bytes, OutgoingRecord, str]
"""Message id, record, message group."""


class _Layout(NamedTuple):
    """Where the parts of a message's system properties are, if it has no keys, group or trace."""

    id_at: int
    id_end: int
    born_at: int
    born_end: int
    host_end: int
    before_id: bytes
    between: bytes
    host: bytes
    """These three with the fields' tags and lengths."""
    template: PropertyTemplate


_NO_LAYOUT: Final = _Layout(0, 0, 0, 0, 0, b"?", b"", b"", PropertyTemplate(b"", b"", b"", 0))


class DecodedSend:
    """A request that was read in this way."""

    __slots__ = ("groups", "message_ids", "records", "topic", "topic_key")

    def __init__(
        self,
        topic_key: bytes,
        message_ids: list[bytes],
        records: list[OutgoingRecord],
        groups: Sequence[str] = (),
    ) -> None:
        """`topic_key`: the topic as it came. Raises `DecodeError`."""
        self.topic = v2.Resource.FromString(topic_key)
        self.topic_key = topic_key
        self.message_ids = message_ids
        self.records = records
        self.groups = groups
        """The message group of each, empty for a NORMAL message; nothing when all are such."""


class SendDecoder:
    def __init__(self, check: Check, limits: MessageLimits) -> None:
        """`check` is asked once for each template, with a message of one byte."""
        self._body_bytes_max = limits.body_bytes
        self._properties_bytes_max = min(limits.properties_bytes, names.SENT_BYTES_MAX)
        self._properties_max = limits.properties_count
        self._templates = PropertyTemplates(check)
        self._last = _NO_LAYOUT
        """Of the last message that had one: nearly always of the next one too."""
        self._born: tuple[bytes, int] = (b"", 0)
        """The last born time read."""

    def read(self, data: bytes) -> DecodedSend | None:
        """None: it is to be read in the usual way. Raises `DecodeError`."""
        view = send_view.SendView.FromString(data)
        messages = view.messages
        if not messages or view.ByteSize() != len(data):  # a field was there twice, or empty
            return None
        topic = messages[0].topic
        limit = self._body_bytes_max
        ids: list[bytes] = []
        records: list[OutgoingRecord] = []
        groups: list[str] = []
        for message in messages:
            body = message.body
            if message.topic != topic or not 0 < len(body) <= limit:
                return None
            try:
                found = self._record(body, message.system_properties, message.user_properties)
            except (IsUnusual, IndexError, UnicodeDecodeError):
                return None
            ids.append(found[0])
            records.append(found[1])
            groups.append(found[2])
        return DecodedSend(topic, ids, records, groups if any(groups) else ())

    def _record(self, body: bytes, system: bytes, entries: Sequence[bytes]) -> _Decoded:
        """The short way for what is laid out like the last. Raises `IsUnusual`, `IndexError`,
        `UnicodeDecodeError`."""
        id_at, id_end, born_at, born_end, host_end, before_id, between, host, template = self._last
        message_id = system[id_at:id_end]
        if (
            system[:id_at] == before_id
            and system[id_end:born_at] == between
            and system[born_end:host_end] == host
            and system[host_end:] in QUEUE_IDS
            and message_id.isalnum()
            and not entries
        ):
            stamp = system[born_at:born_end]
            born_ms = self._born[1] if stamp == self._born[0] else self._born_ms(stamp)
            properties = UNIQ_KEY + message_id + template.behind_id
            fields = (body, properties, template.sys_flag, 0, born_ms, hosts.LOCAL)
            # half the time of OutgoingRecord(…)
            return message_id, tuple.__new__(OutgoingRecord, fields), ""
        return self._other_record(body, system, entries)

    def _other_record(self, body: bytes, system: bytes, entries: Sequence[bytes]) -> _Decoded:
        """Lengths are below 128: one byte. Raises `IsUnusual`, `IndexError`,
        `UnicodeDecodeError`."""
        keys_at = at = 2 + system[1] if system[0] == _TAG_TAG else 0
        while system[at] == _KEY_TAG and system[at + 1] < LONG:
            at += 2 + system[at + 1]
        id_bytes = system[at + 1]
        id_end = at + 2 + id_bytes
        message_id = system[at + 2 : id_end]
        born_at = system.find(_BORN_TAG, id_end)
        if system[at] != _ID_TAG or born_at < 0 or not message_id.isalnum():
            raise IsUnusual
        born_end = born_at + 2 + system[born_at + 1]
        if system[born_end] != _HOST_TAG:
            raise IsUnusual
        host_end = born_end + 2 + system[born_end + 1]
        group, trace = group_and_trace(system, end_of_queue_id(system, host_end))
        head, between, host = system[:keys_at], system[id_end:born_at], system[born_end:host_end]
        key = (id_bytes, head, between, host, group != b"")
        template = self._templates.of(key)
        born_ms = self._born_ms(system[born_at + 2 : born_end])
        if entries or at > keys_at or group or trace:
            keys = keys_of(system[keys_at:at])
            properties = self._properties(template, message_id, entries, keys, group, trace)
        else:
            properties = UNIQ_KEY + message_id + template.behind_id
            id_at, stamp_at = id_end - id_bytes, born_at + 2
            before_id, between = system[:id_at], system[id_end:stamp_at]
            self._last = _Layout(
                id_at, id_end, stamp_at, born_end, host_end, before_id, between, host, template
            )
        record = OutgoingRecord(body, properties, template.sys_flag, 0, born_ms, hosts.LOCAL)
        return message_id, record, group.decode()

    def _born_ms(self, stamp: bytes) -> int:
        """Raises `IsUnusual`, `DecodeError`."""
        if stamp == self._born[0]:
            return self._born[1]
        born_ms = millis(Timestamp.FromString(stamp))
        if not 0 <= born_ms <= LATEST_MS:
            raise IsUnusual
        self._born = (stamp, born_ms)
        return born_ms

    def _properties(
        self,
        template: PropertyTemplate,
        message_id: bytes,
        entries: Sequence[bytes],
        keys: list[bytes],
        group: bytes,
        trace: bytes,
    ) -> bytes:
        """In the order of `outgoing.record`. Raises `IsUnusual`, `IndexError`,
        `UnicodeDecodeError`."""
        texts = [*keys, group, trace]
        parts = [UNIQ_KEY, message_id, VALUE_END]
        if entries:
            parts.append(self._user_properties(entries, texts))
        parts.append(template.tags)
        if keys:
            parts += (_KEYS, b" ".join(keys), VALUE_END)
        if group:
            parts += (_GROUP, group, VALUE_END)
        if trace:
            parts += (_TRACE, trace, VALUE_END)
        parts.append(template.born_host)
        properties = b"".join(parts)
        # longer than what counts, so whoever is below the limit here is so there
        if len(properties) > self._properties_bytes_max:
            raise IsUnusual
        if not b" ".join(texts).decode().isprintable():  # no control characters, nothing damaged
            raise IsUnusual
        return properties

    def _user_properties(self, entries: Sequence[bytes], texts: list[bytes]) -> bytes:
        """Adds their values to `texts`. Raises `IsUnusual`, `IndexError`, `UnicodeDecodeError`."""
        if len(entries) > self._properties_max:
            raise IsUnusual
        found, values = user_entries(entries)
        texts += values
        return self._templates.user_format(tuple(found)) % tuple(values)
