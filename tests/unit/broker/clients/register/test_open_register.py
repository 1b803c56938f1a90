"""Does a URL lead to the register it says, and a wrong one to an error that helps?"""

from pathlib import Path

import pytest
from harness.authority import Authority

from popmq_broker.clients.register.open_register import open_register
from popmq_common.process.config import ConfigError


def secret_file(folder: Path, mode: int = 0o600) -> Path:
    path = folder / "password"
    path.touch(mode)
    return path


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
        ("etcd://", "no port"),
        ("etcd://h", "no port"),
        ("etcd://h:x", "no port"),
        ("etcd://h:70000", "no port"),
        ("etcd://:2379", "no host"),
        ("etcd://h:1,", "no port"),
        ("etcd://h:1,h:1", "different"),
        ("etcd://" + ",".join(f"h{number}:1" for number in range(17)), "at most 16"),
        ("etcd://h:1/x", "nothing follows"),
        ("etcd://h:1?x=y", "nothing follows"),
        ("etcd://[::1", "IPv6"),
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


def test_a_password_in_the_url_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="its own setting") as found:
        open_register("etcd://me:secret@h:1", "c", "b")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("url", ["etcd://h:1", "etcd://h1:1,h2:2/", "etcd://[::1]:2379"])
async def test_etcd_need_not_be_there_yet(url: str) -> None:
    await open_register(url, "c", "b").close()


async def test_a_user_has_a_password_that_is_kept(tmp_path: Path) -> None:
    path = secret_file(tmp_path)
    for user, file in (("me", None), ("", path)):
        with pytest.raises(ConfigError, match="belong together"):
            open_register("etcd://h:1", "c", "b", user=user, password_file=file)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        open_register("etcd://h:1", "c", "b", user="me", password_file=path)
    with pytest.raises(ConfigError, match="cannot be read"):
        open_register("etcd://h:1", "c", "b", user="me", password_file=tmp_path / "none")


async def test_certificates_fit_the_scheme(tmp_path: Path) -> None:
    some = secret_file(tmp_path)
    with pytest.raises(ConfigError, match="needs the authority"):
        open_register("etcds://h:1", "c", "b")
    with pytest.raises(ConfigError, match="write etcds://"):
        open_register("etcd://h:1", "c", "b", ca=some)
    with pytest.raises(ConfigError, match="belong together"):
        open_register("etcds://h:1", "c", "b", ca=Authority(tmp_path).pem, cert=some)
    with pytest.raises(ConfigError, match="cannot be used"):
        open_register("etcds://h:1", "c", "b", ca=some)
    for given in ({"user": "me"}, {"ca": some}, {"password_file": some}):
        with pytest.raises(ConfigError, match="only etcd does"):
            open_register(f"file://{tmp_path}", "c", "b", **given)
