"""What the services' image leaves out: the script knows the tree, and what is left imports."""

import ast
import compileall
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRUNE = ROOT / "deploy" / "requirements" / "prune"
PACKAGES = ("sdk/popmq", "pipelines/popmq_pipelines", "services/testing/popmq_testing")
LEFT = ("popmq", "popmq_pipelines.export.export_process", "popmq_pipelines.snapshot.snapshots")
"""What the command line and a broker's export import."""
GONE = ("popmq.taskiq", "popmq.otel", "popmq_pipelines.audit", "popmq_pipelines.report")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An environment as the image's, with nothing but our packages in it."""
    folder = tmp_path / "lib" / "python3.11" / "site-packages"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / Path(package).name)
    assert compileall.compile_dir(folder, quiet=1)
    (folder / "grpc" / "_cython" / "_credentials").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "popmq-pipelines").touch()
    subprocess.run(["sh", PRUNE, tmp_path], check=True)
    return folder


def test_what_is_left_can_be_used_and_the_rest_is_gone(installed: Path) -> None:
    asked = f"""
import importlib, importlib.util, sys
sys.path.insert(0, {str(installed)!r})
for name in {LEFT!r}:
    assert importlib.import_module(name).__file__.startswith({str(installed)!r}), name
print(*(name for name in {GONE!r} if importlib.util.find_spec(name)))
"""
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_of_what_others_wrote_nothing_is_taken_out_that_is_imported() -> None:
    """The parser of metrics once was, and `popmq standalone` did not start in the image."""
    gone = {
        word.removesuffix(".pyc").replace("/", ".")
        for word in re.findall(r"[a-z_0-9/]+", PRUNE.read_text().partition("others wrote.")[2])
        if "/" in word
    }
    assert "prometheus_client.twisted" in gone
    sources = [*(ROOT / "services").rglob("*.py"), *(ROOT / "sdk").rglob("*.py")]
    used = {name for source in sources for name in _imported(source)}
    assert "prometheus_client.parser" in used
    assert used & gone == set()


def _imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
