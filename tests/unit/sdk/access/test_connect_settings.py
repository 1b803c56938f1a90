"""Options are stronger than the environment, the environment than a context."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from popmq import Credentials, UnusableSettings
from popmq.access.connect_settings import AskedSettings, ConnectSettings, connect_settings
from popmq.access.contexts import CONTEXTS_MAX, Contexts, SavedContext, read_contexts

PROD = SavedContext(
    endpoint="https://prod",
    access_key="alice",
    secret_key="of-prod",
    session_token="t",
    tls_ca="/prod/ca.pem",
    tls_cert="/prod/c.pem",
    tls_key="/prod/k.pem",
)
TEST = SavedContext(endpoint="test:8081")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """With two contexts; prod is the current one."""
    found = {"POPMQ_CONFIG_DIR": str(tmp_path / "config")}
    contexts = read_contexts(found)
    contexts.put("prod", PROD)
    contexts.put("test", TEST)
    contexts.use("prod")
    contexts.write()
    return found


def asked(variables: Mapping[str, str], **options: str) -> ConnectSettings:
    return connect_settings(AskedSettings(**options), variables)


def test_the_current_context_is_used_as_a_whole(variables: dict[str, str]) -> None:
    assert asked(variables) == ConnectSettings(
        endpoint="https://prod",
        context="prod",
        credentials=Credentials("alice", "of-prod", "t"),
        tls_ca="/prod/ca.pem",
        tls_cert="/prod/c.pem",
        tls_key="/prod/k.pem",
    )


def test_a_context_that_is_named_is_stronger_than_the_current_one(
    variables: dict[str, str],
) -> None:
    found = asked(variables, context="test")
    assert (found.endpoint, found.context, found.credentials) == ("test:8081", "test", None)


def test_default_stands_for_no_context(variables: dict[str, str]) -> None:
    found = asked(variables, context="default")
    assert (found.endpoint, found.context, found.credentials) == ("", "", None)


def test_another_server_gets_no_signature_that_is_meant_for_the_current_context(
    variables: dict[str, str],
) -> None:
    found = asked(variables, endpoint="elsewhere")
    assert (found.endpoint, found.credentials, found.tls_ca) == ("elsewhere", None, "")
    named = asked(variables, endpoint="elsewhere", context="prod")
    assert named.endpoint == "elsewhere"
    assert named.credentials == Credentials("alice", "of-prod", "t")


def test_the_environment_is_stronger_than_a_context(variables: dict[str, str]) -> None:
    variables |= {"POPMQ_ACCESS_KEY": "bob", "POPMQ_SECRET_KEY": "of-bob"}
    assert asked(variables).credentials == Credentials("bob", "of-bob")


def test_options_are_stronger_than_the_environment(
    variables: dict[str, str], tmp_path: Path
) -> None:
    variables |= {"POPMQ_ACCESS_KEY": "bob", "POPMQ_SECRET_KEY": "of-bob"}
    file = tmp_path / "secret"
    file.write_text("of-carol\n")
    file.chmod(0o600)
    found = asked(variables, access_key="carol", secret_key_file=str(file))
    assert found.credentials == Credentials("carol", "of-carol")
    assert asked(variables, tls_ca="mine").tls_ca == "mine"
    own = asked(variables, tls_cert="c", tls_key="k")
    assert (own.tls_cert, own.tls_key) == ("c", "k")
    half = asked(variables, tls_cert="c")
    assert (half.tls_cert, half.tls_key) == ("c", ""), "no other certificate's key goes with it"


def test_no_secret_goes_with_another_user(variables: dict[str, str]) -> None:
    assert asked(variables, access_key="alice").credentials == Credentials("alice", "of-prod", "t")
    with pytest.raises(UnusableSettings, match="no secret key for the user 'carol'"):
        asked(variables, access_key="carol")


def test_a_secret_file_that_others_can_read_is_refused(
    variables: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("of-carol\n")
    file.chmod(0o644)
    with pytest.raises(UnusableSettings, match="chmod 600"):
        asked(variables, access_key="carol", secret_key_file=str(file))


def test_a_context_that_is_not_there_is_told(variables: dict[str, str]) -> None:
    with pytest.raises(UnusableSettings, match=r"no context 'prdo' in .*contexts\.json"):
        asked(variables, context="prdo")


def test_only_the_owner_can_read_contexts(variables: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "config"
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    file.chmod(0o644)
    with pytest.raises(UnusableSettings, match="chmod 600"):
        asked(variables)
    assert asked(variables, endpoint="elsewhere").endpoint == "elsewhere"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"current": "a", "contexts": {"a": 1}}'])
def test_a_damaged_file_is_told(variables: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "config" / "contexts.json").write_text(text)
    with pytest.raises(UnusableSettings, match=r"contexts\.json has no contexts"):
        asked(variables)


@pytest.mark.parametrize("name", ["", "default", ".", "-x", "a b", "a/b", "x" * 65])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UnusableSettings, match="no name of a context"):
        Contexts(Path("f"), "default", {}).put(name, TEST)


def test_contexts_have_a_bound() -> None:
    full = Contexts(Path("f"), "default", {str(i): TEST for i in range(CONTEXTS_MAX)})
    full.put("1", PROD)
    with pytest.raises(UnusableSettings, match="already"):
        full.put("more", TEST)


def test_who_has_no_home_has_no_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert connect_settings(AskedSettings(), {}).endpoint == ""
