"""RocketMQ's property string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.errors import PropertiesTooLarge
from popmq_common.records import hosts, properties

TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(TEXT, TEXT, max_size=8))
def test_round_trip(found: dict[str, str]) -> None:
    assert properties.decode(properties.encode(found)) == found


def test_what_rocketmq_passes_over() -> None:
    text = b"a\x01b\x02\x02x\x02\x01v\x02noseparator\x02last\x01value"
    assert properties.decode(text) == {"a": "b", "last": "value"}


def test_the_limit_is_exact() -> None:
    room = properties.PROPERTIES_BYTES_MAX - len("a\x01\x02")
    assert len(properties.encode({"a": "x" * room})) == properties.PROPERTIES_BYTES_MAX
    with pytest.raises(PropertiesTooLarge):
        properties.encode({"a": "x" * (room + 1)})


@pytest.mark.parametrize(("host", "text"), [("1.2.3.4", "1.2.3.4:5"), ("::1", "[::1]:5")])
def test_hosts(host: str, text: str) -> None:
    assert hosts.decode(hosts.encode(host, 5)) == text
