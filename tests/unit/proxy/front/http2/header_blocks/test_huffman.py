"""Huffman coded strings are read as the hpack library reads them."""

from hpack import HPACKError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman as decode_of_library
from hypothesis import given
from hypothesis import strategies as st

from popmq_proxy.front.http2.header_blocks import huffman
from popmq_proxy.front.http2.header_blocks.huffman import decode_huffman

ENCODER = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@given(st.binary(max_size=100))
def test_any_text_comes_back(text: bytes) -> None:
    assert decode_huffman(ENCODER.encode(text)) == text


@given(st.binary(max_size=20))
def test_noise_is_read_as_the_library_reads_it(coded: bytes) -> None:
    try:
        expected: bytes | None = bytes(decode_of_library(coded))
    except HPACKError:
        expected = None
    try:
        found: bytes | None = decode_huffman(coded)
    except HPACKError:
        found = None
    assert found == expected


def test_what_is_remembered_is_bounded() -> None:
    for first in range(256):
        for second in range(256):
            try:
                decode_huffman(bytes((first, second, 0, second, first)))
            except HPACKError:
                continue
    assert len(huffman._steps) <= huffman.STEPS_MAX
