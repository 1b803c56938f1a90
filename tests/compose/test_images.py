"""The images hold what they need and no more."""

import pytest
from compose.cluster import Cluster, run
from harness.pins import pins, plain

BASE = "python:3.11-slim-bookworm"
PACKAGES = "/opt/popmq/lib/python3.11/site-packages"
MiB = 1 << 20
SERVICES_BYTES_MAX = 60 * MiB
pytestmark = [pytest.mark.compose, pytest.mark.timeout(2400)]


def above_base_bytes(image: str) -> int:
    def size_bytes(name: str) -> int:
        return int(run("docker", "image", "inspect", name, "--format", "{{.Size}}"))

    return size_bytes(image) - size_bytes(BASE)


def inside(image: str, command: str) -> str:
    shell = ["docker", "run", "--rm", "--read-only", "--entrypoint", "sh", image, "-c", command]
    return run(*shell)


def test_the_image_holds_the_services_and_no_more(cluster: Cluster) -> None:
    size_bytes = above_base_bytes("popmq-test")
    print(f"\nservices: {size_bytes / MiB:.1f} MiB above {BASE}")
    assert size_bytes < SERVICES_BYTES_MAX
    assert inside("popmq-test", "id -u").strip() == "10001"
    packages = inside("popmq-test", f"ls {PACKAGES}").split()
    assert not {"pip", "pyspark", "pyarrow", "pytest", "mypy", "grpc_tools"} & set(packages)


def test_the_image_of_the_services_is_compiled(cluster: Cluster) -> None:
    which = "import popmq_common.records.record; print(popmq_common.records.record.__file__)"
    assert inside("popmq-test", f'python -c "{which}"').strip().endswith(".so")


def test_what_was_taken_out_of_the_image_is_missed_by_nobody(cluster: Cluster) -> None:
    """Each module of the services can be imported there; only `popmq tls`, which makes keys, wants
    its extra."""
    packages = "popmq_broker popmq_cli popmq_common popmq_console popmq_nameserver popmq_proxy"
    walk = (
        "import importlib, pkgutil; "
        f"found = [m.name for p in '{packages}'.split() for m in pkgutil.walk_packages("
        "importlib.import_module(p).__path__, p + '.')]; "
        "[importlib.import_module(name) for name in found if name != 'popmq_cli.tls.authority']; "
        "print(len(found))"
    )
    assert int(inside("popmq-test", f'python -c "{walk}"')) > 200


def test_grpc_trusts_whom_the_system_trusts(cluster: Cluster) -> None:
    """It brings the same certificates in a file of its own, to which a link leads instead."""
    roots = "pkgutil.get_data('grpc', '_cython/_credentials/roots.pem')"
    count = f"import pkgutil; print({roots}.count(b'BEGIN CERTIFICATE'))"
    assert int(inside("popmq-test", f'python -c "{count}"')) > 50


def test_its_packages_are_the_pinned_ones(cluster: Cluster) -> None:
    listing = (
        "import importlib.metadata as m; "
        f"print(*(d.name + '==' + d.version for d in m.distributions(path=['{PACKAGES}'])))"
    )
    installed = {plain(pin) for pin in inside("popmq-test", f'python -c "{listing}"').split()}
    assert {pin for pin in installed if not pin.startswith("popmq==")} == {
        plain(pin) for pin in pins("server")
    }
