"""The SDK alone needs grpcio and protobuf."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["popmq", "popmq.idempotence"])
def test_neither_sqlalchemy_nor_redis_is_imported(module: str) -> None:
    asked = f"import sys, {module}; print({{'sqlalchemy', 'redis'}} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, timeout=60, check=True
    )
    assert done.stdout.strip() == b"set()"
