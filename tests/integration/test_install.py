"""What users get when they install: the wheel alone, in an environment of its own."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from harness.processes import standalone

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDS = {"grpcio", "protobuf", "typing-extensions"}
"""The third is grpcio's own."""
SHOP = """
from popmq import App

app = App()
app.topic("orders")
app.group("billing", start="first")

@app.handler("orders", "billing")
def bill(body: bytes) -> None:
    print("billed", body.decode())
    app.stop()

@app.after_startup
async def order() -> None:
    await app.client.send("orders", b"order-1")
"""
"""It serves one message."""


@pytest.mark.timeout(600)
def test_the_sdk_alone_brings_grpcio_and_protobuf(tmp_path: Path) -> None:
    def run(*command: str) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=500, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("popmq-*.whl")
    run(sys.executable, "-m", "venv", "fresh")
    python = str(tmp_path / "fresh" / "bin" / "python")
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel))
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
    names = {one["name"].lower().replace("_", "-") for one in listed}
    assert names - {"pip", "setuptools", "popmq"} == NEEDS
    load = "import popmq, popmq.sync, popmq.idempotence; print(popmq.App)"
    assert run(python, "-c", load)
    oldest = [one.replace(">=", "==") for one in PROJECT["dependencies"]]
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *oldest)
    assert run(python, "-W", "error", "-c", load)
    command = str(tmp_path / "fresh" / "bin" / "popmq")
    assert "--workers" in run(command, "run", "--help")
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "server").mkdir()
    with standalone(tmp_path / "server") as server:
        assert run(command, "run", "shop:app", "--endpoint", server.endpoint) == "billed order-1\n"
