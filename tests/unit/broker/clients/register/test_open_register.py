"""Does a URL lead to the register it says, and a wrong one to an error that helps?"""

from pathlib import Path

import pytest

from popmq_broker.clients.register.open_register import open_register
from popmq_common.process.config import ConfigError


async def test_a_folder_has_one_for_each_broker(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/registers"
    one, again = open_register(url, "c", "b-1"), open_register(url, "c", "b-1")
    other = open_register(url, "c", "b-2")
    assert await one.swap(0, b"1") == 1
    assert (await again.read()).value == b"1"
    assert (await other.read()).value is None
    assert (tmp_path / "registers" / "c" / "b-1" / "record").exists()
    for register in (one, again, other):
        await register.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "scheme"),
        ("/tmp/x", "scheme"),
        ("http://h:1", "scheme"),
        ("file://tmp/x", "three slashes"),
        ("file:x", "three slashes"),
        ("file:///x?y=1", "three slashes"),
        ("file:///x#y", "three slashes"),
    ],
)
def test_a_wrong_url_says_what_is_allowed(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"{reason}.*Allowed: .*file:///PATH"):
        open_register(url, "c", "b")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made"):
        open_register(f"file://{tmp_path}/file", "c", "b")


@pytest.mark.parametrize(("cluster", "broker"), [("a/b", "b"), ("c", ".."), ("", "b"), ("c", "")])
def test_names_that_cannot_be_part_of_keys(tmp_path: Path, cluster: str, broker: str) -> None:
    with pytest.raises(ConfigError, match="cannot be part of a register's keys"):
        open_register(f"file://{tmp_path}", cluster, broker)
