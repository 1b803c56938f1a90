"""What a snapshot knows of one message."""

from pathlib import Path

import pytest
from harness.log_writer import TOPIC, LogWriter

from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.show_message import history, lines


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    log = LogWriter(tmp_path / "data")
    log.send("m0")
    log.send("m1")
    log.ack(log.change(log.pop(1), 5_000))
    export(log.data_dir, tmp_path / "snap")
    return tmp_path / "snap"


def test_a_message_s_life_in_the_order_of_the_log(snapshot: Path) -> None:
    found = history(snapshot, TOPIC, 0, 1)
    assert [(table, row.get("generation")) for table, row in found] == [
        ("commitlog_index", None),
        ("pop_checkpoints", 1),
        ("pop_checkpoints", 2),
        ("pop_acks", 1),
        ("pop_acks", 2),
    ]


def test_a_line_has_what_is_known_and_not_what_was_asked_for(snapshot: Path) -> None:
    first, *_ = lines(history(snapshot, TOPIC, 0, 0))
    assert first.startswith("commitlog_index")
    assert " message_id=id-m0 " in first
    assert "tags=" not in first
    assert "queue_offset=" not in first


def test_a_message_that_is_not_there(snapshot: Path) -> None:
    assert history(snapshot, TOPIC, 0, 2) == []
    assert history(snapshot, "other", 0, 0) == []


def test_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        history(tmp_path, TOPIC, 0, 0)
