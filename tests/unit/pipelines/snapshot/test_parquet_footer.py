"""Footers put in order are the same whoever wrote them, and are read alike; others are refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from popmq_pipelines.snapshot.parquet_footer import NoFooter, in_order, put_in_order

COLUMNS = 3
THREE = b"\x19\x35"
"""Field 2, right behind field 1: a list of three i32."""


def written(path: Path) -> Path:
    """With all that a footer may have: statistics, texts, key and value metadata, row groups."""
    rows = pa.table(
        {
            "text": [f"topic-{i % 7}" for i in range(1_000)],
            "number": pa.array(range(1_000), pa.int64()),
            "share": pa.array([None, *(i / 3 for i in range(999))], pa.float64()),
        }
    ).replace_schema_metadata({"made": "by a test", "again": "ä" * 300})
    pq.write_table(rows, path, row_group_size=300, version="2.6", store_schema=False)
    return path


def footer_of(path: Path) -> tuple[int, bytes]:
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return begin, data[begin:-8]


def lists_of_encodings(path: Path) -> list[list[str]]:
    read = pq.read_metadata(path)
    return [
        list(read.row_group(group).column(at).encodings)
        for group in range(read.num_row_groups)
        for at in range(COLUMNS)
    ]


def turned(path: Path) -> Path:
    """As another JVM may have written it: each list of three encodings the other way round."""
    begin, footer = footer_of(path)
    data, changed = bytearray(path.read_bytes()), bytearray(in_order(footer))
    at = 0
    while (at := changed.find(THREE, at)) >= 0:
        at += len(THREE)
        changed[at : at + 3] = reversed(changed[at : at + 3])
    data[begin:-8] = changed
    path.write_bytes(bytes(data))
    return path


def test_what_differs_in_order_alone_becomes_the_same(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one"), turned(written(tmp_path / "other"))
    before = pq.read_table(one)
    assert one.read_bytes() != other.read_bytes()
    put_in_order(one)
    put_in_order(other)
    assert one.read_bytes() == other.read_bytes()
    assert pq.read_table(one).equals(before)


def test_only_the_lists_change_and_none_of_their_members(tmp_path: Path) -> None:
    path = turned(written(tmp_path / "one"))
    before, size_bytes = lists_of_encodings(path), path.stat().st_size
    put_in_order(path)
    after = lists_of_encodings(path)
    assert path.stat().st_size == size_bytes
    assert after != before
    assert [sorted(one) for one in after] == [sorted(one) for one in before]
    once = path.read_bytes()
    put_in_order(path)
    assert path.read_bytes() == once


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1" + b"\0" * 20,
        b"PAR1" + (4_000).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\x19" + (1).to_bytes(4, "little") + b"PAR1",  # a list that does not come
        b"PAR1" + b"\x1e\0" + (2).to_bytes(4, "little") + b"PAR1",  # a kind that is none
    ],
)
def test_what_is_no_parquet_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "one").write_bytes(data)
    with pytest.raises(NoFooter, match="no Parquet file"):
        put_in_order(tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == data


def test_a_footer_cut_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    _, footer = footer_of(written(tmp_path / "one"))
    for cut in range(0, len(footer) - 1, 7):
        with pytest.raises(NoFooter):
            in_order(footer[:cut])
