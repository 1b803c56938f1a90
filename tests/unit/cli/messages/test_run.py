"""Which app `popmq run` runs."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from popmq import App, Credentials, Tls
from popmq.access.contexts import SavedContext, read_contexts
from popmq.app.launch import load, parser
from popmq.app.lifecycle import Launch
from popmq.app.run_options import Connect, Misuse, RunOptions
from popmq_cli.messages.run import run


def test_the_current_folder_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_for_test_run.py").write_text(
        "from popmq import App\napp = App()\napp.handler('t', 'g')(print)\nother = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(load("shop_for_test_run:app"), App)
    result = CliRunner().invoke(run, ["shop_for_test_run:other"])
    assert "no popmq.App" in result.output
    assert result.exit_code == 2


@pytest.mark.parametrize("target", [":app", "module:"])
def test_a_target_is_module_and_app(target: str) -> None:
    result = CliRunner().invoke(run, [target])
    assert "is not MODULE:APP" in result.output


def test_a_module_that_is_not_there() -> None:
    assert "no module 'nowhere_at_all'" in CliRunner().invoke(run, ["nowhere_at_all:app"]).output


def test_the_only_app_needs_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from popmq import App\napp = App()\nsame = app\napp.handler('t', 'g')(print)\n"
    (tmp_path / "one_for_test_run.py").write_text(text)
    (tmp_path / "two_for_test_run.py").write_text(f"{text}other = App()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load("one_for_test_run") is load(str(tmp_path / "one_for_test_run.py"))
    result = CliRunner().invoke(run, ["two_for_test_run"])
    assert "say which: two_for_test_run:app" in result.output


def test_an_app_without_handlers_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty_for_test_run.py").write_text("from popmq import App\napp = App()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = CliRunner().invoke(run, ["empty_for_test_run:app"])
    assert result.exit_code == 2
    assert "no handler" in result.output


OWN = Tls(ca=b"its own", server_name="queue")
GIVEN = Tls(ca=b"given")
SHOWN = Tls(certificate=b"c", key=b"k")


@pytest.mark.parametrize(
    ("told", "own", "used"),
    [
        (None, None, None),
        (None, True, Tls()),
        (None, OWN, OWN),
        (True, None, Tls()),
        (True, OWN, OWN),
        (GIVEN, None, GIVEN),
        (GIVEN, True, GIVEN),
        (GIVEN, OWN, Tls(ca=b"given", server_name="queue")),
        (SHOWN, OWN, Tls(ca=b"its own", certificate=b"c", key=b"k", server_name="queue")),
        (GIVEN, SHOWN, Tls(ca=b"given", certificate=b"c", key=b"k")),
    ],
)
async def test_tls_of_the_command_and_of_the_app(
    told: bool | Tls | None, own: bool | Tls | None, used: Tls | None
) -> None:
    async with Launch(tls=told).client("localhost", {"tls": own}) as client:
        assert client.connection.tls == used


@pytest.mark.parametrize(("told", "user"), [(None, "own"), (Credentials("told", "s"), "told")])
async def test_credentials_of_the_command_and_of_the_app(
    told: Credentials | None, user: str
) -> None:
    own = {"credentials": Credentials("own", "s")}
    async with Launch(credentials=told).client("localhost", own) as client:
        assert client.connection.user == user


def test_the_processes_of_an_app_get_no_secret_as_an_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text("hush-hush")
    file.chmod(0o600)
    options = RunOptions(target="m:app", access_key="alice", secret_key_file=str(file))
    assert options.connection().credentials == Credentials("alice", "hush-hush")
    words = options.command()
    assert words[words.index("--access-key") + 1] == "alice"
    assert words[words.index("--secret-key-file") + 1] == str(file)
    assert "hush" not in " ".join(words)
    asked = vars(parser().parse_args(words[3:]))
    asked.pop("command")
    assert RunOptions(**asked) == options


def test_an_app_connects_as_a_context_says_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And not as the current one does."""
    monkeypatch.setenv("POPMQ_CONFIG_DIR", str(tmp_path))
    contexts = read_contexts(os.environ)
    contexts.put("prod", SavedContext(endpoint="prod:1", access_key="alice", secret_key="s"))
    contexts.use("prod")
    contexts.write()
    assert RunOptions(target="m:app").connection() == Connect("", None, None)
    named = RunOptions(target="m:app", context="prod").connection()
    assert named == Connect("prod:1", None, Credentials("alice", "s"))
    with pytest.raises(Misuse, match="no context 'prdo'"):
        RunOptions(target="m:app", context="prdo").connection()
