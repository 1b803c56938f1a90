"""Rewrite proto/gen from the .proto files: `make proto`. `--into DIR` writes elsewhere.

The stubs are committed, so that a user needs no compiler; a tidy test compares them with this.
"""

import argparse
import os
import shutil
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent


def generate(into: Path) -> int:
    """Wipe `into` and fill it; returns protoc's exit code."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    sources = sorted(
        str(path.relative_to(HERE)) for path in HERE.rglob("*.proto") if "gen" not in path.parts
    )
    well_known = resources.files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={into}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    # The plugins are installed beside the interpreter, which need not be on the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    code = protoc.main(["protoc", f"-I{HERE}", f"-I{well_known}", *outputs, *sources])
    for package in ("popmq_internal", "popmq_admin", "popmq_consumer"):
        for folder in (into / package, into / package / "v1"):
            (folder / "__init__.py").touch()
        (into / package / "py.typed").touch()
    return int(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=HERE / "gen")
    sys.exit(generate(parser.parse_args().into))
