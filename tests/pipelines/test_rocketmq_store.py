"""A directory that Apache RocketMQ wrote, read by the second reader: all that its maker noted.

`make rocketmq-fixture` makes the archive; tests/rocketmq_store/fixture.py says what is noted.
"""

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness.exports import table
from pyspark.sql import SparkSession

from popmq_pipelines.jobs.decode import decode
from popmq_pipelines.jobs.reconcile import GRACE_MS, reconcile
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.manifest import Manifest
from popmq_pipelines.tables import opened_snapshot

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(900)]

ARCHIVE = Path(__file__).with_name("rocketmq-store.tar.xz")
Row = dict[str, Any]
Place = tuple[str, int, int]
IN_PLACE = "lined"
"""A FIFO group: RocketMQ writes none of its leases down."""
OF_QUEUES = {"message missing", "stored twice", "beyond the queue", "clock went back"}
"""Findings that have nothing to do with leases, of which RocketMQ does not write how they ended."""
QUEUE_OFFSET_AT = 20
"""In a record of the log."""
READ = ("log", "size", "stored", "born", "sys", "tries", "id", "tag")


@dataclass(frozen=True)
class Decoded:
    data_dir: Path
    folder: Path
    manifest: Manifest

    def noted(self, name: str) -> list[Row]:
        lines = (self.data_dir / "noted" / f"{name}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def rows(self, name: str) -> list[Row]:
        columns = [column.name for column in SNAPSHOT_TABLES[name]]
        return [dict(zip(columns, row, strict=True)) for row in table(self.folder, name)]

    def index(self) -> dict[Place, Row]:
        """By their place; no place is there twice."""
        rows = self.rows("commitlog_index")
        found = {place(row): row for row in rows}
        assert len(found) == len(rows)
        return found

    def numbers(self, table: str) -> dict[str, set[int]]:
        """Group → numbers of the messages that rows of this table are about; of messages that
        were not sent (copies for redelivery) none."""
        of_place = {at: row["message_id"] for at, row in self.index().items()}
        of_id = {line["id"]: line["number"] for line in self.noted("sent")}
        sent_to = {line["topic"] for line in self.noted("sent")}
        found: dict[str, set[int]] = {}
        for row in self.rows(table):
            if row["topic"] in sent_to:
                found.setdefault(row["consumer_group"], set()).add(of_id[of_place[place(row)]])
        return found


def place(row: Row) -> Place:
    return row["topic"], row["queue_id"], row["queue_offset"]


@pytest.fixture(scope="module")
def decoded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    folder = tmp_path_factory.mktemp("rocketmq")
    data_dir = folder / "store"
    data_dir.mkdir()
    command = ["tar", "--sparse", "-C", str(data_dir), "-xJf", str(ARCHIVE)]
    subprocess.run(command, check=True, timeout=60)
    return Decoded(data_dir, folder / "decoded", decode(spark, data_dir, folder / "decoded", "s1"))


def test_the_files_agree_with_each_other(decoded: Decoded) -> None:
    assert decoded.manifest.problems == []
    assert (decoded.manifest.broker, decoded.manifest.cluster) == ("broker-a", "PopMQ")


def test_each_message_that_its_client_read_is_where_it_was_read(decoded: Decoded) -> None:
    """Of every topic, RocketMQ's own too."""
    index = decoded.index()
    read = decoded.noted("read")
    assert len(read) > 600
    for row in read:
        found = index[row["topic"], row["queue"], row["offset"]]
        assert {
            "log": found["log_offset"],
            "size": found["size_bytes"],
            "stored": found["store_timestamp_ms"],
            "born": found["born_timestamp_ms"],
            "sys": found["sys_flag"],
            "tries": found["reconsume_times"],
            "id": found["message_id"],
            "tag": found["tags"],
        } == {name: row[name] for name in READ}


def test_each_message_that_was_sent_is_there_once_as_it_was_sent(decoded: Decoded) -> None:
    must, may, must_not = set(), set(), set()
    for line in decoded.noted("sent"):
        message = (line["topic"], line["id"], line["tag"], line["crc"])
        if line.get("later") == "soon":
            may.add(message)  # the broker may have been stopped before its time
        elif "later" in line or line.get("fate") in ("rollback", "pending"):
            must_not.add(message)
        else:
            must.add(message)
    assert len(must) > 600
    assert len(must_not) == 30
    topics = {message[0] for message in must | may}
    found = Counter(
        (row["topic"], row["message_id"], row["tags"], row["body_crc"])
        for row in decoded.rows("commitlog_index")
        if row["topic"] in topics
    )
    assert set(found.values()) == {1}
    assert must <= found.keys() <= must | may


def test_each_queue_begins_and_ends_where_its_broker_said(decoded: Decoded) -> None:
    """The broker may have written more of its own before it stopped."""
    found = {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in decoded.rows("queue_watermarks")
    }
    users = {line["topic"] for line in decoded.noted("sent") if "later" not in line}
    told = decoded.noted("queues")
    assert {line["topic"] for line in told} >= users
    for line in told:
        first, following = found[line["topic"], line["queue"]]
        assert first == line["min"]
        assert following >= line["max"]
        if line["topic"] in users:
            assert following == line["max"]


def test_what_waits_for_its_time_or_its_fate_is_known(decoded: Decoded) -> None:
    sent = decoded.noted("sent")
    far = {line["id"] for line in sent if line.get("later") == "far"}
    parked = {
        row["message_id"]
        for row in decoded.rows("timer_index")
        if (row["kind"], row["real_topic"]) == ("parked", "later")
    }
    assert far
    assert far <= parked
    halves = {
        row["queue_offset"]: row["message_id"]
        for row in decoded.rows("half_messages")
        if row["real_topic"] == "maybe"
    }
    fates = {line["id"]: line["fate"] for line in sent if "fate" in line}
    assert set(halves.values()) == fates.keys()
    ended = [halves[row["half_offset"]] for row in decoded.rows("half_ends")]
    decided = {one for one, fate in fates.items() if fate != "pending"}
    assert decided <= set(ended)


def test_leases_and_acks_are_those_that_consumers_had(decoded: Decoded) -> None:
    """Leases whose time has come: until then RocketMQ's lie in its timer."""
    leased, acked = decoded.numbers("pop_checkpoints"), decoded.numbers("pop_acks")
    taken = {line["group"]: line for line in decoded.noted("taken")}
    for group, line in taken.items():
        assert acked.get(group, set()) <= set(line["acked"]), group
        assert leased.get(group, set()) <= {*line["acked"], *line["held"]}, group
    again = taken["again"]
    assert (leased["again"], acked["again"]) == (
        {*again["acked"], *again["held"]},
        {*again["acked"]},
    )
    assert again["held"]
    assert IN_PLACE in taken
    assert IN_PLACE not in leased


def test_the_audit_has_nothing_against_its_queues(spark: SparkSession, decoded: Decoded) -> None:
    report = reconcile(
        spark, opened_snapshot.open_snapshot(decoded.folder), None, grace_ms=GRACE_MS
    )
    assert not report.problems
    assert not OF_QUEUES & {row["kind"] for row in report.findings}


def test_a_message_taken_out_of_its_log_is_missed(
    spark: SparkSession, decoded: Decoded, tmp_path: Path
) -> None:
    """Its record's queue offset is changed: one message less, and an entry that leads nowhere."""
    data_dir = tmp_path / "store"
    shutil.copytree(decoded.data_dir, data_dir)
    victim = next(row for at, row in sorted(decoded.index().items()) if at[0] == "orders")
    with open(data_dir / "commitlog" / f"{0:020d}", "r+b") as log:
        log.seek(victim["log_offset"] + QUEUE_OFFSET_AT)
        assert int.from_bytes(log.read(8)) == victim["queue_offset"]
        log.seek(victim["log_offset"] + QUEUE_OFFSET_AT)
        log.write((victim["queue_offset"] + 5_000).to_bytes(8))
    problems = decode(spark, data_dir, tmp_path / "decoded").problems
    where = f"orders queue {victim['queue_id']} offset"
    at = f"log offset {victim['log_offset']}"
    assert problems == [
        f"an entry without its record: {where} {victim['queue_offset']}, {at}",
        f"a record without entry: {where} {victim['queue_offset'] + 5_000}, {at}",
    ]
