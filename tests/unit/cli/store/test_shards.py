"""popmq store on the directory of a standalone with several cores: all shards at once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from popmq_cli.store.store import store


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    for place in ("data", "data/shards/1", "data/shards/2"):
        shutil.copytree(made, tmp_path / place)
    return tmp_path / "data"


def ran(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(store, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def shards(result: Result) -> dict[int, Any]:
    (line,) = result.stdout.splitlines()
    return {one["shard"]: one for one in json.loads(line)["shards"]}


def damage(shard: Path) -> None:
    path = shard / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[200] ^= 4
    path.write_bytes(data)


def test_check_looks_at_all_and_the_worst_decides(folder: Path) -> None:
    found = shards(ran("check", folder, "--json"))
    assert [one["directory"] for one in found.values()] == [
        str(folder),
        str(folder / "shards" / "1"),
        str(folder / "shards" / "2"),
    ]
    assert {one["findingCount"] for one in found.values()} == {0}
    damage(folder / "shards" / "1")
    found = shards(ran("check", folder, "--json", code=1))
    assert [one["findingCount"] > 0 for one in found.values()] == [False, True, False]
    text = ran("check", folder, code=1).stdout
    assert f"shard 1, {folder / 'shards' / '1'}:" in text


def test_one_shard_can_be_named(folder: Path) -> None:
    damage(folder / "shards" / "1")
    (alone,) = ran("check", folder, "--shard", 0, "--json").stdout.splitlines()
    assert json.loads(alone)["findingCount"] == 0
    ran("check", folder, "--shard", 2)
    ran("check", folder, "--shard", 1, code=1)
    refused = ran("check", folder, "--shard", 7, code=2)
    assert "has no shard 7; it has: 0, 1, 2" in refused.output


def test_what_reads_one_log_names_the_others(folder: Path) -> None:
    assert (
        f"Not looked at, for each shard has a log of its own: {folder}"
        in ran("dump", folder, "--limit", 1).output
    )


def test_a_backup_has_all_of_them(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    ran("backup", folder, target)
    had = shards(ran("check", folder, "--json"))
    for number, copied in shards(ran("check", target, "--json")).items():
        assert copied["records"] >= had[number]["records"] > 0


def test_rebuild_and_handover_go_through_all(folder: Path) -> None:
    asked = shards(ran("rebuild", folder, "--json"))
    assert [one["written"] for one in asked.values()] == [False] * 3
    shutil.rmtree(folder / "shards" / "2" / "consumequeue")
    done = shards(ran("rebuild", folder, "--write", "--json"))
    assert len(done) == 3
    ran("check", folder)
    waiting = shards(ran("handover", folder, "--write", "--json"))
    assert [one["waiting"] for one in waiting.values()] == [0] * 3
