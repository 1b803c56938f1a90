"""Numbers as protobuf writes them, of one byte to ten."""

import pytest
from google.protobuf.wrappers_pb2 import UInt64Value

from popmq_common.link.protowire import varint


@pytest.mark.parametrize("bits", range(64))
def test_a_number_is_written_as_protobuf_does(bits: int) -> None:
    power = 1 << bits
    for number in (power, power + 1, power | power // 3, 2 * power - 1):
        assert b"\x08" + varint(number) == UInt64Value(value=number).SerializeToString(), number


def test_zero_takes_a_byte() -> None:
    assert varint(0) == b"\0"
