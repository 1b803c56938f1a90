"""Compressed bodies, those of other clients too."""

import gzip
import zlib

import pytest

from popmq._core.backoff import Backoff, attempt_delay_s
from popmq._core.messages.compress import BodyDamaged, BodyTooLarge, pack, unpack

BODY = b"popmq " * 1_000


def test_both_forms_are_read() -> None:
    assert unpack(pack(BODY, 5), len(BODY)) == BODY
    assert unpack(zlib.compress(BODY), len(BODY)) == BODY
    assert gzip.decompress(pack(BODY, 5)) == BODY


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused() -> None:
    bomb = pack(bytes(10_000_000), 9)
    with pytest.raises(BodyTooLarge):
        unpack(bomb, 1_000_000)
    with pytest.raises(BodyTooLarge):
        unpack(pack(BODY, 5), len(BODY) - 1)


@pytest.mark.parametrize("damaged", [b"", b"plain", pack(BODY, 5)[:-9]])
def test_a_damaged_body_is_told(damaged: bytes) -> None:
    with pytest.raises(BodyDamaged):
        unpack(damaged, 1_000_000)


def test_waits_grow_up_to_the_longest() -> None:
    backoff = Backoff(first_s=1.0, longest_s=8.0)
    assert [backoff.after(n, 1.0) for n in (1, 2, 3, 4, 5, 5_000)] == [1, 2, 4, 8, 8, 8]
    assert backoff.after(1, 0.0) == 0.5
    assert [attempt_delay_s((1.0, 5.0), n) for n in (1, 2, 3)] == [1.0, 5.0, 5.0]
