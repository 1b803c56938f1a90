"""Where credentials are found, what is refused, and that a secret is never shown."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from popmq import Client, Credentials, UnusableSettings

KEYS = {"POPMQ_ACCESS_KEY": "alice", "POPMQ_SECRET_KEY": "hush"}
LINES = "# of the shop\n\nexport POPMQ_ACCESS_KEY=alice\nPOPMQ_SECRET_KEY = 'hush=#1'\n"


def private(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_secret_is_not_shown() -> None:
    shown = repr(Credentials("alice", "hush", "token-of-alice"))
    assert "alice" in shown
    assert "hush" not in shown
    assert "token-of" not in shown


@pytest.mark.parametrize(
    ("access_key", "secret_key", "token", "words"),
    [
        ("", "hush", None, "access key"),
        ("alice", "", None, "secret key"),
        ("a,b", "hush", None, "comma"),
        ("a/b", "hush", None, "slash"),
        ("a b", "hush", None, "space"),
        ("ä", "hush", None, "ASCII"),
        ("a\n", "hush", None, "ASCII"),
        ("alice", "hush", "t\n", "token"),
    ],
)
def test_what_no_request_could_carry_is_refused(
    access_key: str, secret_key: str, token: str | None, words: str
) -> None:
    with pytest.raises(UnusableSettings, match=words) as refused:
        Credentials(access_key, secret_key, token)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_json(tmp_path: Path, mode: int) -> None:
    text = json.dumps({"accessKey": "alice", "secretKey": "hush", "sessionToken": "t"})
    path = private(tmp_path / "c", text, mode)
    assert Credentials.from_file(path) == Credentials("alice", "hush", "t")


def test_a_file_of_an_environment(tmp_path: Path) -> None:
    assert Credentials.from_file(private(tmp_path / "c", LINES)) == Credentials("alice", "hush=#1")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = private(tmp_path / "c", LINES, mode)
    with pytest.raises(UnusableSettings, match=f"others can read .*: chmod 600 {path}"):
        Credentials.from_file(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no accessKey"),
        ("{", "not JSON"),
        ('{"accessKey": 1}', "not a string"),
        ('{"accessKey": "alice"}', "no secretKey"),
        ('{"secretkey": "hush"}', "'?secretkey"),
        ("hush", "line 1"),
        ("PASSWORD=hush", "PASSWORD"),
    ],
)
def test_a_file_without_credentials_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = private(tmp_path / "c", text)
    with pytest.raises(UnusableSettings, match=words) as refused:
        Credentials.from_file(path)
    assert str(path) in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableSettings, match=r"none\.json cannot be read"):
        Credentials.from_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        (KEYS, Credentials("alice", "hush")),
        (KEYS | {"POPMQ_SESSION_TOKEN": "t"}, Credentials("alice", "hush", "t")),
        ({"POPMQ_CREDENTIALS_FILE": "c"}, Credentials("alice", "hush=#1")),
        (KEYS | {"POPMQ_CREDENTIALS_FILE": "none"}, Credentials("alice", "hush")),
        (
            {"POPMQ_ACCESS_KEY": "alice", "POPMQ_CREDENTIALS_FILE": "c"},
            Credentials("alice", "hush=#1"),
        ),
        (
            {"POPMQ_SECRET_KEY": "other", "POPMQ_CREDENTIALS_FILE": "c"},
            Credentials("alice", "other"),
        ),
    ],
)
def test_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: Mapping[str, str],
    found: Credentials | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    private(tmp_path / "c", LINES)
    assert Credentials.from_environment(variables) == found


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"POPMQ_ACCESS_KEY": "alice"}, "no secret key for the user 'alice'.*POPMQ_SECRET_KEY"),
        ({"POPMQ_SECRET_KEY": "hush"}, "no user.*POPMQ_ACCESS_KEY"),
        ({"POPMQ_ACCESS_KEY": "bob", "POPMQ_CREDENTIALS_FILE": "c"}, "user 'bob'"),
    ],
)
def test_half_of_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], words: str
) -> None:
    """The secret of another user is no other half."""
    monkeypatch.chdir(tmp_path)
    private(tmp_path / "c", LINES)
    with pytest.raises(UnusableSettings, match=words):
        Credentials.from_environment(variables)


async def test_a_client_has_those_it_is_given_or_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setitem(os.environ, name, value)
    bob = Credentials("bob", "b")
    async with Client() as own, Client(credentials=bob) as given, Client(credentials=False) as none:
        clients = (own, given, none)
        assert [client.connection.user for client in clients] == ["alice", "bob", None]
