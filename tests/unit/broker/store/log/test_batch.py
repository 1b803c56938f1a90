"""Where records go: the end of a file and the room for a blank."""

import pytest

from popmq_broker.store.log.batch import Batch, Piece
from popmq_common.errors import BadRequest
from popmq_common.records import record as rec


def placed(batch: Batch, *sizes: int) -> list[int]:
    places = []
    for size in sizes:
        places.append(batch.place(size))
        batch.parts.append(b"r" * size)
    return places


def test_records_follow_each_other() -> None:
    batch = Batch(0, 100)
    assert placed(batch, 10, 20, 30) == [0, 10, 30]
    assert batch.end == 60
    assert batch.pieces() == [Piece(0, b"r" * 60)]


def test_exactly_a_blank_is_left() -> None:
    batch = Batch(30, 100)
    assert placed(batch, 62) == [30]
    assert batch.end == 92
    assert placed(batch, 1) == [100]
    assert batch.pieces() == [Piece(30, b"r" * 62 + rec.blank(8)), Piece(100, b"r")]


def test_one_byte_more_goes_to_the_next_file() -> None:
    batch = Batch(30, 100)
    assert placed(batch, 63) == [100]
    assert batch.pieces() == [Piece(30, rec.blank(70)), Piece(100, b"r" * 63)]


def test_a_full_file_needs_no_blank() -> None:
    batch = Batch(200, 100)
    assert placed(batch, 92, 92) == [200, 300]
    assert [piece.log_offset for piece in batch.pieces()] == [200, 300]


def test_a_record_fills_a_file_but_for_the_blank() -> None:
    assert placed(Batch(0, 100), 92) == [0]
    with pytest.raises(BadRequest, match="a record of 93 bytes does not fit"):
        Batch(0, 100).place(93)


def test_nothing_makes_no_pieces() -> None:
    assert Batch(50, 100).pieces() == []
