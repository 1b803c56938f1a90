"""The rules of the house, as functions over source text: each returns what breaks it."""

import ast
from collections.abc import Iterable

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

MAY_IMPORT: dict[str, set[str]] = {
    "popmq_common": {"popmq_internal"},
    "popmq_broker": {"popmq_common", "popmq_internal"},
    "popmq_broker.clients": {"popmq_common", "popmq_etcd", "popmq_internal"},
    "popmq_nameserver": {"popmq_common", "popmq_internal"},
    "popmq_proxy": {"popmq_common", "popmq_internal", "popmq_admin", "popmq_consumer", "apache"},
    "popmq": {"apache", "popmq_admin", "popmq_consumer"},
    "popmq.testing": {"popmq_testing"},
    "popmq_testing": {
        "apache",
        "popmq",
        "popmq_broker",
        "popmq_common",
        "popmq_consumer",
        "popmq_internal",
        "popmq_nameserver.core",
        "popmq_proxy",
        "popmq_standalone",
    },
    "popmq_standalone": {
        "popmq_broker.app",
        "popmq_broker.config",
        "popmq_broker.metrics",
        "popmq_broker.shards",
        "popmq_common",
        "popmq_internal",
        "popmq_nameserver",
        "popmq_proxy",
    },
    "popmq_pipelines": {"popmq_common", "popmq_broker.core"},
    "popmq_cli": {
        "apache",
        "popmq",
        "popmq_admin",
        "popmq_internal",
        "popmq_common",
        "popmq_broker.app",
        "popmq_broker.backup",
        "popmq_broker.config",
        "popmq_broker.force",
        "popmq_broker.handover",
        "popmq_broker.metrics",
        "popmq_broker.rebuild",
        "popmq_broker.shards",
        "popmq_broker.store.offline",
        "popmq_nameserver.app",
        "popmq_nameserver.config",
        "popmq_nameserver.core",
        "popmq_pipelines.snapshot.destination",
        "popmq_pipelines.snapshot.seal",
        "popmq_pipelines.snapshot.snapshots",
        "popmq_proxy.app",
        "popmq_proxy.clients",
        "popmq_proxy.config",
        "popmq_proxy.workers",
        "popmq_proxy.front",
        "popmq_readings",
        "popmq_console.app",
        "popmq_console.config",
        "popmq_standalone",
    },
    "popmq_readings": {"popmq_admin", "popmq_common"},
    "popmq_console": {"apache", "popmq", "popmq_admin", "popmq_common", "popmq_readings"},
    "audit_scale": {"popmq_broker.core", "popmq_common", "popmq_pipelines"},
    "curves": {"extremes", "popmq", "popmq_admin", "popmq_common"},
    "extremes": {"popmq_admin", "popmq_broker", "popmq_common", "popmq_internal"},
    "peers": {"extremes", "popmq"},
    "profiling": {"extremes"},
    "scaling": {"extremes"},
    "sdk_compare": {"popmq", "popmq_admin"},
    "micro": {
        "apache",
        "popmq",
        "popmq_consumer",
        "popmq_internal",
        "popmq_common",
        "popmq_broker",
        "popmq_proxy",
        "sdk_compare",
    },
}
"""Package → what of ours it may import; itself always. A module may have its own row;
a package without one imports nothing of ours."""

LAYERS = ["core", "store", "clients", "engine", "rpc", "front", "app"]
"""Inside a service a folder imports its own or an earlier one; single modules are free."""

IMPURE = {
    "aiofiles",
    "asyncio",
    "grpc",
    "io",
    "logging",
    "mmap",
    "os",
    "pathlib",
    "random",
    "socket",
    "structlog",
    "threading",
    "time",
}
IMPURE_COMMON = {
    "popmq_common.process",
    "popmq_common.link.frames",
    "popmq_common.link.portions",
    "popmq_common.metrics.metrics_http",
    "popmq_common.tls",
}
OURS = {*MAY_IMPORT, "popmq_admin", "popmq_consumer", "popmq_etcd", "popmq_internal", "apache"}
BANNED_CLASS_ENDINGS = ("Manager", "Helper", "Util", "Utils", "Processor")


def imports(source: str) -> Iterable[tuple[int, str]]:
    """(line, dotted name) of everything a module imports; relative ones begin with a dot."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def import_breaches(module: str, source: str) -> list[str]:
    """`module` is dotted, e.g. popmq_broker.core.pop."""
    package, _, inner = module.partition(".")
    layer = inner.partition(".")[0]
    found = []
    for line, name in imports(source):
        reason = _import_breach(package, layer, name)
        if reason:
            found.append(f"{module}:{line}: {name}: {reason}")
    return found


def _import_breach(package: str, layer: str, name: str) -> str | None:
    if name.startswith("."):
        return "relative import"
    top = name.partition(".")[0]
    if layer in ("core", "_core") and (top in IMPURE or name.endswith("_pb2_grpc")):
        return "the core is pure"
    if layer == "core" and any(name.startswith(f"{impure}.") for impure in IMPURE_COMMON):
        return "the core is pure"
    if top not in OURS:
        return None
    if top == package:
        other = name.split(".")[1]
        if layer in LAYERS and other in LAYERS and LAYERS.index(other) > LAYERS.index(layer):
            return f"{layer} may not know {other}"
        return None
    may_import = MAY_IMPORT.get(f"{package}.{layer}", MAY_IMPORT.get(package, set()))
    if any(name == allowed or name.startswith(allowed + ".") for allowed in may_import):
        return None
    return f"{package} may not know it"


def size_breaches(module: str, source: str) -> list[str]:
    found = []
    lines = source.count("\n")
    if lines > MODULE_LINES_MAX:
        found.append(f"{module}: {lines} lines, at most {MODULE_LINES_MAX}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                found.append(f"{module}:{node.lineno}: {node.name} has {length} lines")
    return found


def name_breaches(module: str, source: str) -> list[str]:
    found = []
    if module.rpartition(".")[2] in ("utils", "util", "helpers", "misc"):
        found.append(f"{module}: the name tells nothing")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_CLASS_ENDINGS):
            found.append(f"{module}:{node.lineno}: {node.name}")
    return found
