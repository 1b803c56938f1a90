"""What is generated is fresh, and what must be complete is."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from popmq_common.errors import PopMQError, all_errors
from popmq_proxy.core.messages.status import CODES

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_stubs_are_what_the_protos_make(tmp_path: Path) -> None:
    """Mend it with: make proto."""
    run("proto/generate.py", "--into", str(tmp_path / "gen"))
    made, kept = _texts(tmp_path / "gen"), _texts(ROOT / "proto" / "gen")
    assert made.keys() == kept.keys()
    names = [name for name in made if _meant(name, made[name]) != _meant(name, kept[name])]
    assert names == []


def test_stubs_fit_the_oldest_runtime_that_is_allowed() -> None:
    """Mend it with: make proto."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = dict(one.split(">=") for one in project["dependencies"])
    texts = _texts(ROOT / "proto" / "gen").values()
    for text in texts:
        for name, pattern in (
            ("protobuf", r"Protobuf Python Version: ([\d.]+)"),
            ("grpcio", r"GRPC_GENERATED_VERSION = '([\d.]+)'"),
        ):
            for found in re.findall(pattern, text):
                assert _version(found) <= _version(oldest[name]), (name, found)


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _meant(name: str, text: str) -> list[str]:
    """What does not depend on the compiler's version: messages and fields, paths, types."""
    if name.endswith(".pyi"):
        return text.splitlines()
    return [
        line.strip()
        for line in text.splitlines()
        if "AddSerializedFile" in line or re.search(r"'/?([a-z.0-9]+\.v\d|etcdserverpb)\.\w+", line)
    ]


def _texts(folder: Path) -> dict[str, str]:
    return {
        os.fspath(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_configuration_page_is_fresh() -> None:
    """Mend it with: make docs."""
    assert run("docs/generate_configuration.py") == (ROOT / "docs/configuration.md").read_text()


def test_the_page_of_metrics_is_fresh() -> None:
    """Mend it with: make docs."""
    assert run("docs/generate_metrics.py") == (ROOT / "docs/metrics.md").read_text()


def test_the_page_of_errors_is_fresh() -> None:
    """Mend it with: make docs."""
    assert run("docs/generate_errors.py") == (ROOT / "docs/errors.md").read_text()


def test_the_page_of_commands_is_fresh() -> None:
    """But for where lines break, which versions of click decide. Mend it with: make docs."""
    assert run("docs/generate_cli.py").split() == (ROOT / "docs/cli.md").read_text().split()


def test_the_states_in_the_page_of_pop_are_fresh() -> None:
    """Mend it with: make docs."""
    assert run("docs/generate_pop.py") == (ROOT / "docs/pop.md").read_text()


def test_every_error_has_a_code_and_a_text() -> None:
    errors = set(all_errors().values())
    assert {error for error in errors if error not in CODES} == set()
    assert {code for code in CODES if code not in errors} == set()
    for error in errors - {PopMQError}:
        assert (error.__doc__ or "").strip().endswith("."), error
