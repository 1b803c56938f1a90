"""Which app `popmq run` runs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from popmq import App, Tls
from popmq.app.launch import load
from popmq.app.lifecycle import Launch
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
    ],
)
async def test_tls_of_the_command_and_of_the_app(
    told: bool | Tls | None, own: bool | Tls | None, used: Tls | None
) -> None:
    async with Launch(tls=told).client("localhost", {"tls": own}) as client:
        assert client.connection.tls == used
