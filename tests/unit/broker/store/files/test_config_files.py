"""Config files: replaced as a whole, the one before kept."""

import asyncio
import json
from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles

from popmq_broker.store.files.config_files import ConfigFiles
from popmq_broker.store.files.files import OsFiles
from popmq_common.errors import Corrupt, DiskFull
from popmq_common.process import logs

FOLDER = Path("/d/config")
NAME = "topics.json"


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def config(disk: MemoryFiles) -> ConfigFiles:
    return ConfigFiles(disk, FOLDER, logs.get("test"))


async def test_what_was_saved_survives_a_crash(disk: MemoryFiles, config: ConfigFiles) -> None:
    assert config.load(NAME, json.loads) is None
    await config.save(NAME, '{"a": "é"}')
    await config.save(NAME, '{"a": 2}')
    disk.crash()
    assert config.load(NAME, json.loads) == {"a": 2}
    before = json.loads(disk.read(FOLDER / f"{NAME}.bak") or b"")
    assert (before.pop("a"), list(before)) == ("é", ["popmqCrc32"])


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{\n "a": {"b": 1}\n}\n'])
async def test_what_is_read_is_what_was_saved(config: ConfigFiles, text: str) -> None:
    await config.save(NAME, text)
    assert config.load(NAME, json.loads) == json.loads(text)


async def test_a_file_without_a_checksum_is_rocketmqs(
    disk: MemoryFiles, config: ConfigFiles
) -> None:
    disk.replace(FOLDER / NAME, b'{"a": 7}')
    assert config.load(NAME, json.loads) == {"a": 7}


async def test_to_begin_anew_leaves_nothing_of_before(
    disk: MemoryFiles, config: ConfigFiles
) -> None:
    await config.save(NAME, '{"a": 1}')
    await config.save(NAME, '{"a": 2}')
    config.begin_anew(NAME, '{"a": 3}')
    disk.crash()
    assert config.load(NAME, json.loads) == {"a": 3}
    disk.lose(FOLDER / NAME)
    assert config.load(NAME, json.loads) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"a": 2'])
async def test_a_damaged_file_falls_back(
    disk: MemoryFiles, config: ConfigFiles, damage: bytes
) -> None:
    await config.save(NAME, '{"a": 1}')
    await config.save(NAME, '{"a": 2}')
    disk.replace(FOLDER / NAME, damage)
    assert config.load(NAME, json.loads) == {"a": 1}
    disk.lose(FOLDER / NAME)
    assert config.load(NAME, json.loads) == {"a": 1}


async def test_both_damaged_is_told(disk: MemoryFiles, config: ConfigFiles) -> None:
    await config.save(NAME, "{")
    with pytest.raises(Corrupt, match=NAME):
        config.load(NAME, json.loads)
    await config.save(NAME, "[")
    with pytest.raises(Corrupt, match=f"{NAME} is damaged"):
        config.load(NAME, json.loads)


async def test_a_full_disk_leaves_it_as_it_was(disk: MemoryFiles, config: ConfigFiles) -> None:
    await config.save(NAME, '{"a": 1}')
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull):
        await config.save(NAME, '{"a": 2}')
    assert config.load(NAME, json.loads) == {"a": 1}


async def test_saves_happen_in_the_order_of_their_calls(tmp_path: Path) -> None:
    config = ConfigFiles(OsFiles(), tmp_path, logs.get("test"))
    await asyncio.gather(*(config.save(NAME, f'{{"n": {i}}}') for i in range(20)))
    assert config.load(NAME, json.loads) == {"n": 19}
    assert json.loads((tmp_path / f"{NAME}.bak").read_text())["n"] == 18


async def test_a_cancelled_save_does_not_meet_the_next(tmp_path: Path) -> None:
    config = ConfigFiles(OsFiles(), tmp_path, logs.get("test"))
    first = asyncio.ensure_future(config.save(NAME, '{"n": 1}'))
    await asyncio.sleep(0)
    first.cancel()
    await config.save(NAME, '{"n": 2}')
    assert config.load(NAME, json.loads) == {"n": 2}
    assert first.cancelled()
