"""The rules of the house hold everywhere, and each of them can fail."""

from pathlib import Path

import pytest
from tidy.rules import import_breaches, name_breaches, size_breaches
from tidy.sources import BESIDE, ROOT, dotted, production


def modules() -> list[tuple[str, Path]]:
    beside = [path for root in BESIDE for path in sorted(root.rglob("*.py"))]
    return [(dotted(path), path) for path in [*production(), *beside]]


def test_who_imports_whom() -> None:
    assert [
        text for name, path in modules() for text in import_breaches(name, path.read_text())
    ] == []


def test_sizes_of_modules_and_functions() -> None:
    tests = [(str(path.relative_to(ROOT)), path) for path in (ROOT / "tests").rglob("*.py")]
    found = [
        text
        for name, path in [*modules(), *tests]
        if "node_modules" not in path.parts
        for text in size_breaches(name, path.read_text())
    ]
    assert found == []


def test_names_tell_what_is_inside() -> None:
    assert [
        text for name, path in modules() for text in name_breaches(name, path.read_text())
    ] == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("popmq_broker.engine.leases.pop", "from popmq_proxy.core import routes"),
        ("popmq_broker.rpc.link", "from apache.rocketmq.v2 import definition_pb2"),
        ("popmq.client", "from popmq_common import errors"),
        ("popmq_pipelines.export.snapshot_writer", "from popmq_broker.store.store import Store"),
        ("popmq_broker.core.pop", "import time"),
        ("popmq_broker.core.pop", "from popmq_common.process.clock import Clock"),
        ("popmq_broker.core.pop", "from popmq_broker.store.store import Store"),
        ("popmq_broker.store.open", "from popmq_broker.engine.leases.pop import Pop"),
        ("popmq_broker.core.pop", "from popmq_internal.v1 import link_pb2_grpc"),
        ("popmq_broker.core.pop", "from . import record"),
        ("popmq_cli.main", "from popmq_broker.engine.leases.pop import Pop"),
        ("popmq.client", "from popmq_testing import PopmqBroker"),
        ("popmq.testing", "from popmq_broker.app import engine"),
        ("monitoring.dashboards", "from popmq_common import metric"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert import_breaches(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("popmq_broker.core.pop", "from popmq_common.errors import Corrupt"),
        ("popmq_broker.engine.leases.pop", "from popmq_broker.core import record"),
        ("popmq_proxy.rpc.messages.send", "from apache.rocketmq.v2 import definition_pb2"),
        ("popmq.testing", "from popmq_testing import PopmqBroker"),
    ],
)
def test_an_allowed_import_passes(module: str, source: str) -> None:
    assert import_breaches(module, source) == []


def test_a_long_module_or_function_is_found() -> None:
    assert size_breaches("m", "\n" * 401)
    assert size_breaches("m", "def f() -> None:\n" + "    pass\n" * 70)
    assert size_breaches("m", "def f() -> None:\n" + "    pass\n" * 69) == []


def test_an_empty_name_is_found() -> None:
    assert name_breaches("popmq_broker.utils", "")
    assert name_breaches("popmq_broker.x", "class OffsetManager: ...")
