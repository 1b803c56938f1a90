"""popmq store: what it finds in a sound and in a damaged directory, and what it makes of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from campaigns.stopped_store import SETTINGS
from click.testing import CliRunner, Result
from harness.broker import SEGMENT_BYTES, EngineDriver
from harness.names import GROUP, TOPIC

from popmq_broker.core.groups.offsets import QueueKey, decode
from popmq_broker.core.store.damage import DamageTable, Passer, encode
from popmq_broker.store.files.files import OsLock
from popmq_cli.store.store import store
from popmq_common.records.names import CATALOG_TOPIC, PASSES_GROUP
from popmq_internal.v1 import link_pb2 as link


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data-0")
    return tmp_path / "data-0"


def ran(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(store, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def documents(result: Result) -> list[Any]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def checked(folder: Path, code: int) -> Any:
    (found,) = documents(ran("check", folder, "--json", code=code))
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


def segment(folder: Path, base: int = 0) -> Path:
    return folder / "commitlog" / f"{base:020d}"


def queue_file(folder: Path, base: int = 0) -> Path:
    return folder / "consumequeue" / TOPIC / "1" / f"{base:020d}"


def state_of(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "lock"}


def bodies(folder: Path) -> list[bytes]:
    """What a broker on it has in the topic."""
    driver = EngineDriver(folder.parent, **SETTINGS)
    log = driver.broker.state.runtime.store
    try:
        return [
            record.body
            for queue_id in (0, 1)
            for entry in log.entries(TOPIC, queue_id, 0, 1_000)
            if (record := log.read(entry.log_offset, entry.size_bytes))
        ]
    finally:
        driver.close()
        driver.loop.close()


class TestCheck:
    def test_a_sound_directory_stays_as_it_is(self, folder: Path) -> None:
        before = state_of(folder)
        found = checked(folder, 0)
        assert (found["records"], found["findings"], found["notes"]) == (119, [], [])
        assert found["journalRecords"] > 10
        assert state_of(folder) == before
        assert "119 records" in ran("check", folder).output

    def test_the_start_of_a_group_is_a_record_of_the_journal(self, tmp_path: Path) -> None:
        driver = EngineDriver(tmp_path)
        driver.make()
        start = link.FixStart(group=GROUP, topic=TOPIC, at_ms=driver.clock.now_ms(), is_now=True)
        driver.call(fix_start=start)
        driver.run(driver.broker.close())
        driver.loop.close()
        assert checked(driver.data_dir, 0)["findings"] == []

    def test_a_damaged_record_does_not_hide_the_next(self, folder: Path) -> None:
        flip(segment(folder, 2 * SEGMENT_BYTES), 1000)
        flip(segment(folder, SEGMENT_BYTES), 200)
        found = checked(folder, 1)
        assert found["records"] == 117
        lost = [line for line in found["findings"] if "next record" in line["reason"]]
        assert [line["path"] for line in lost] == [
            str(segment(folder, SEGMENT_BYTES)),
            str(segment(folder, 2 * SEGMENT_BYTES)),
        ]
        gaps = [line for line in found["findings"] if "goes on with offset" in line["reason"]]
        assert len(gaps) == 2

    @pytest.mark.parametrize(
        ("at", "reason"), [(7, "the entry points to"), (11, "bytes"), (19, "tag code")]
    )
    def test_a_damaged_entry(self, folder: Path, at: int, reason: str) -> None:
        flip(queue_file(folder), 60 + at)
        (line,) = checked(folder, 1)["findings"]
        assert (line["path"], line["offset"]) == (str(queue_file(folder).parent), 3)
        assert reason in line["reason"]

    def test_a_lost_queue_file(self, folder: Path) -> None:
        queue_file(folder, 200).unlink()
        found = checked(folder, 1)
        assert [line["offset"] for line in found["findings"]] == list(range(10, 20))

    def test_a_lost_end_of_the_log(self, folder: Path) -> None:
        last = sorted((folder / "commitlog").iterdir())[-1]
        last.write_bytes(bytes(SEGMENT_BYTES))
        reasons = [line["reason"] for line in checked(folder, 1)["findings"]]
        assert any("the log was on disk up to" in reason for reason in reasons)
        assert any("have no messages in the log" in reason for reason in reasons)

    @pytest.mark.parametrize(
        "name", ["topics.json", "topics.json.bak", "consumerOffset.json", "queueEnds.json"]
    )
    def test_a_damaged_configuration(self, folder: Path, name: str) -> None:
        flip(folder / "config" / name, 30)
        found = checked(folder, 1)
        assert str(folder / "config" / name) in [line["path"] for line in found["findings"]]

    def test_a_topic_that_no_table_has(self, folder: Path) -> None:
        path = folder / "config" / "topics.json"
        path.write_text('{"topicConfigTable": {}}')
        reasons = [line["reason"] for line in checked(folder, 1)["findings"]]
        assert f"topic {TOPIC} has messages in the log and is in no table" in reasons

    def test_a_topic_that_only_the_log_has_after_kill_9(self, tmp_path: Path) -> None:
        driver = EngineDriver(tmp_path)
        driver.make(queues=1)
        driver.run(driver.broker.catalog.save())
        record = link.OutgoingRecord(body=b"1", born_host=bytes(8))
        for name in ("late", "deleted"):
            topic = link.TopicConfig(
                name=name, read_queues=1, write_queues=1, message_type="NORMAL"
            )
            driver.call(put_topic=link.PutTopic(topic=topic))
            driver.call(send=link.Send(topic=name, records=[record]))
        driver.call(delete_topic=link.DeleteTopic(topic="deleted"))
        driver.broker.state.runtime.store.abandon()  # as kill -9
        assert "late" not in (driver.data_dir / "config" / "topics.json").read_text()
        assert checked(driver.data_dir, 0)["findings"] == []
        driver.loop.close()

    def test_a_position_behind_the_end(self, folder: Path) -> None:
        path = folder / "config" / "consumerOffset.json"
        path.write_text('{"offsetTable": {"t@g": {0: 10000}}}')
        (line,) = checked(folder, 1)["findings"]
        assert "group g stands at 10000 of t/0, which ends at 34" in line["reason"]

    def test_messages_that_a_group_went_over(self, folder: Path) -> None:
        table = DamageTable()
        table.found((TOPIC, 0), 3, 5)
        table.note(Passer("g", TOPIC, 0), 3, 5)
        (folder / "config" / "popmqDamage.json").write_text(encode(table))
        (line,) = checked(folder, 1)["findings"]
        assert f"group g went over 2 messages of {TOPIC}/0" in line["reason"]

    def test_what_the_next_start_repairs_is_a_note(self, folder: Path) -> None:
        (folder / "checkpoint").write_bytes(bytes(4096))
        last = sorted((folder / "commitlog").iterdir())[-1]
        data = bytearray(last.read_bytes())
        data[-100:-90] = b"torn bytes"
        last.write_bytes(data)
        found = checked(folder, 0)
        assert len(found["notes"]) == 2

    def test_who_holds_it(self, folder: Path) -> None:
        lock = OsLock(folder / "lock")
        assert "in use by another process" in ran("check", folder, code=2).output
        lock.release()

    def test_no_data_directory(self, tmp_path: Path) -> None:
        assert "no commitlog folder" in ran("check", tmp_path, code=2).output
        ran("check", tmp_path / "nothing", code=2)


class TestDump:
    def test_records(self, folder: Path) -> None:
        first, second = documents(ran("dump", folder, "--limit", 2, "--json"))
        assert (first["topic"], first["logOffset"], first["queueOffset"]) == (CATALOG_TOPIC, 0, 0)
        assert second["logOffset"] == first["sizeBytes"]
        (there,) = documents(ran("dump", folder, "--from", 1, "--limit", 1, "--json"))
        assert there == second
        assert "'m0'" in ran("dump", folder, "--topic", TOPIC, "--queue", 0, "--limit", 1).output

    def test_of_one_topic(self, folder: Path) -> None:
        lines = documents(ran("dump", folder, "--topic", "%DLQ%g", "--limit", 0, "--json"))
        assert [line["topic"] for line in lines] == ["%DLQ%g"] * 2

    def test_a_queue_with_a_damaged_entry(self, folder: Path) -> None:
        flip(queue_file(folder), 60 + 7)
        place = ("--topic", TOPIC, "--queue", 1, "--from", 2, "--limit", 3)
        lines = documents(ran("dump", folder, *place, "--json", code=1))
        assert ["wrong" in line for line in lines] == [False, True, False]
        assert [line.get("queueOffset") for line in lines] == [2, None, 4]

    def test_a_queue_needs_its_topic(self, folder: Path) -> None:
        assert "--topic" in ran("dump", folder, "--queue", 1, code=2).output

    def test_the_checkpoint(self, folder: Path) -> None:
        (found,) = documents(ran("dump", folder, "--checkpoint", "--json"))
        assert found["logEnd"] == found["queuesEnd"]
        assert {"topic": TOPIC, "queueId": 1, "first": 0, "next": 42} in found["queues"]
        assert "queues on disk" in ran("dump", folder, "--checkpoint").output


class TestRebuild:
    def test_nothing_happens_without_write(self, folder: Path) -> None:
        before = state_of(folder)
        assert "Would rebuild 8 queues" in ran("rebuild", folder).output
        assert state_of(folder) == before

    def test_queues_are_as_they_were(self, folder: Path) -> None:
        before = state_of(folder)
        flip(queue_file(folder), 60 + 19)
        queue_file(folder, 200).unlink()
        ran("rebuild", folder, "--write")
        assert checked(folder, 0)["findings"] == []
        after = state_of(folder)
        for path in before:
            if "consumequeue" in path.parts and CATALOG_TOPIC not in path.parts:  # it was started
                assert after[path] == before[path]

    def test_positions_from_the_journal(self, folder: Path) -> None:
        path = folder / "config" / "consumerOffset.json"
        before = _moved(path)
        flip(path, 30)
        ran("rebuild", folder, "--write", "--offsets")
        assert _moved(path) == before
        assert path.with_name("consumerOffset.json.set-aside").exists()


class TestTruncate:
    def at(self, folder: Path) -> int:
        """Where the 90th record begins."""
        lines = documents(ran("dump", folder, "--limit", 90, "--json"))
        offset: int = lines[-1]["logOffset"]
        return offset

    def test_it_says_first_what_is_lost(self, folder: Path) -> None:
        before = state_of(folder)
        output = ran("truncate", folder, "--at", self.at(folder)).output
        assert "30 records between" in output
        assert "Nothing was changed" in output
        ran("truncate", folder, "--at", self.at(folder), "--write", code=1)
        assert state_of(folder) == before

    def test_no_record_begins_there(self, folder: Path) -> None:
        assert "no record begins at 5" in ran("truncate", folder, "--at", 5, code=2).output
        ran("truncate", folder, "--at", 1 << 40, code=2)

    def test_the_store_is_sound_and_goes_on(self, folder: Path) -> None:
        at, before = self.at(folder), bodies(folder)
        ran("truncate", folder, "--at", at, "--write", "--yes")
        assert checked(folder, 0)["records"] == 90
        after = bodies(folder)
        assert len(after) < len(before)
        assert set(after) < set(before)

    def test_what_was_deleted_does_not_hide_what_comes(self, folder: Path) -> None:
        """Floors and journal positions that the cut log does not reach are lowered."""
        floors = folder / "config" / "topicFloors.json"
        floors.write_text(json.dumps({TOPIC: {"0": 10_000}}))
        ran("truncate", folder, "--at", self.at(folder), "--write", "--yes")
        lowered = json.loads(floors.read_text())[TOPIC]["0"]
        assert lowered < 34


def _moved(path: Path) -> dict[QueueKey, int]:
    """Positions that say anything: at 0 all begin that have none. From where on it is told how
    groups go over messages is said anew by the next start."""
    table = decode(path.read_text(), where="")
    return {
        key: position
        for key, position in table.offsets.items()
        if position and key.group != PASSES_GROUP
    }
