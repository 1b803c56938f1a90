"""Rewrite proto/gen from the .proto files: `make proto`. `--into DIR` writes elsewhere.

The stubs are committed, so that a user needs no compiler; a tidy test compares them with this. They
are made by the oldest compiler whose stubs fit, in an environment of its own: stubs refuse to work
with a runtime that is older than their compiler, and what else a user has may need an old one.

In protobuf's pool, which a process has one of, the messages of apache.rocketmq.v2 and of etcd get
names of ours: other clients of these protocols define the same names, and the second one to be
imported would fail. Neither fields nor paths of RPCs have those names, so the wire is as published.
"""

import argparse
import os
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent


IN_THE_POOL = {
    published: f"popmq.{published}" for published in ("apache.rocketmq.v2", "etcdserverpb")
}
"""Published package → what it is called there."""
OURS = ("popmq_internal/v1", "popmq_admin/v1", "popmq_consumer/v1", "popmq_etcd/v3")
"""Packages that are folders of Python in `into`."""


def generate(into: Path) -> int:
    """Wipe `into` and fill it; returns protoc's exit code."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as renamed:
        code = _compile(_with_names_of_ours(Path(renamed)), into)
    for path in [*into.rglob("*_grpc.py"), *into.rglob("*.pyi")]:
        text = path.read_text()  # of which paths and comments are meant
        for published, ours in IN_THE_POOL.items():
            text = text.replace(ours, published)
        path.write_text(text)
    for package in OURS:
        for folder in (into / package, (into / package).parent):
            (folder / "__init__.py").touch()
        ((into / package).parent / "py.typed").touch()
    return code


def _with_names_of_ours(into: Path) -> Path:
    """Copies of the .proto files; returns their folder."""
    for path in HERE.rglob("*.proto"):
        copy = into / path.relative_to(HERE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        for published, ours in IN_THE_POOL.items():
            text = text.replace(published, ours)
        copy.write_text(text)
    return into


def _compile(folder: Path, into: Path) -> int:
    sources = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))
    well_known = resources.files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={into}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    # The plugins are installed beside the interpreter, which need not be on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return int(protoc.main(["protoc", f"-I{folder}", f"-I{well_known}", *outputs, *sources]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE / "gen")
    sys.exit(generate(parser.parse_args().into))
