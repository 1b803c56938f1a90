"""The official Rust client, built once. It trusts whom SSL_CERT_FILE names, or else the system."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from compat.guarded import GuardedCluster, guarded_cluster
from compat.session import Session, session
from harness.authority import Authority

Alone = Callable[[], AbstractContextManager[None]]
HERE = Path(__file__).parent
BUILD_S = 1800


@pytest.fixture(scope="session")
def binary(alone: Alone) -> Path:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.fail("cargo is missing: install Rust (https://rustup.rs)")
    with alone():
        build = [cargo, "build", "--locked", "--quiet"]
        subprocess.run(build, cwd=HERE, check=True, timeout=BUILD_S)
    return HERE / "target/debug/driver"


@pytest.fixture(scope="module")
def signed(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("rust")
    with session([str(binary)], folder / "signed.log", os.environ) as running:
        yield running


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded_with_tls(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardedCluster]:
    """Its operator comes without TLS, its clients with it."""
    certificate, key = authority.signed("proxy")
    files = {"POPMQ_PROXY_TLS_CERT": str(certificate), "POPMQ_PROXY_TLS_KEY": str(key)}
    with guarded_cluster(tmp_path_factory.mktemp("guarded"), files) as running:
        yield running


@pytest.fixture(scope="module")
def signed_with_tls(
    binary: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("rust")
    env = {**os.environ, "SSL_CERT_FILE": str(authority.pem)}
    with session([str(binary), "tls"], folder / "signed.log", env) as running:
        yield running
