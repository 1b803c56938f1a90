"""Hatch's hook for `POPMQ_COMPILE=1 pip install .`: the hot modules as C extensions, by mypyc.

Pure Python is the default and says the same; both lie in the wheel, and Python prefers the
extension. docs/decisions/0007 tells what it brings and which modules take part.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "POPMQ_COMPILE"
COMPILER = "compile"
"""The dependency group of pyproject.toml."""
MODULES = {
    "services/common": [
        "popmq_common/link/protowire.py",
        "popmq_common/link/sends.py",
        "popmq_common/records/record.py",
        "popmq_common/link/frames.py",
        "popmq_common/link/coalescer.py",
    ],
    "services/proxy": [
        "popmq_proxy/front/grpc_wire.py",
        "popmq_proxy/front/client_budgets.py",
        "popmq_proxy/front/http2/wire.py",
        "popmq_proxy/front/http2/budgets/limits.py",
        "popmq_proxy/front/http2/header_blocks/huffman.py",
        "popmq_proxy/front/http2/header_blocks/fields.py",
        "popmq_proxy/front/http2/header_blocks/headers.py",
        "popmq_proxy/front/http2/header_blocks/request.py",
        "popmq_proxy/front/http2/budgets/idle.py",
        "popmq_proxy/front/http2/budgets/scheduler.py",
        "popmq_proxy/front/http2/budgets/deadlines.py",
        "popmq_proxy/front/http2/shared.py",
        "popmq_proxy/front/http2/flow_control/incoming.py",
        "popmq_proxy/front/http2/budgets/unsent.py",
        "popmq_proxy/front/http2/stream_state.py",
        "popmq_proxy/front/http2/budgets/ended_streams.py",
        "popmq_proxy/front/http2/flow_control/outgoing.py",
        "popmq_proxy/front/http2/pings.py",
        "popmq_proxy/front/http2/open_streams.py",
        "popmq_proxy/front/http2/stream.py",
        "popmq_proxy/front/http2/streams.py",
        "popmq_proxy/front/http2/control.py",
        "popmq_proxy/front/http2/connection.py",
        "popmq_proxy/core/sends/message_fields.py",
        "popmq_proxy/core/sends/property_templates.py",
        "popmq_proxy/core/sends/send_decoder.py",
        "popmq_proxy/core/messages/delivery.py",
        "popmq_proxy/core/routing/gathering.py",
        "popmq_proxy/core/routing/linger.py",
        "popmq_proxy/core/messages/outgoing.py",
        "popmq_proxy/clients/broker_link.py",
        "popmq_proxy/clients/local_brokers.py",
        "popmq_proxy/clients/deadlines.py",
        "popmq_proxy/core/messages/status.py",
        "popmq_proxy/core/messages/resource.py",
        "popmq_proxy/core/messages/message_types.py",
        "popmq_proxy/clients/brokers.py",
        "popmq_proxy/rpc/shared/context.py",
        "popmq_proxy/rpc/messages/send.py",
        "popmq_proxy/front/unary_fast_path.py",
        "popmq_proxy/front/request_head.py",
    ],
    "services/broker": [
        "popmq_broker/core/sends/known_sends.py",
        "popmq_broker/core/store/index.py",
        "popmq_broker/core/store/queue_entry.py",
        "popmq_broker/store/log/batch.py",
        "popmq_broker/store/queues/drafts.py",
        "popmq_broker/store/index/index_file.py",
        "popmq_broker/store/index/index_kept.py",
        "popmq_broker/store/store.py",
        "popmq_broker/store/replica_store.py",
        "popmq_broker/engine/send.py",
    ],
}
"""What is compiled together, so that calls among them need no Python."""
NO_WARNINGS = "-Wno-all"
"""Of the generated C, which is one file: -Wall, which Python adds, takes gcc a minute there."""
_SETTINGS = """
[mypy]
ignore_missing_imports = True
follow_imports = silent
[mypy-apache.*,popmq_internal.*,popmq_admin.*,popmq_consumer.*,popmq_etcd.*]
ignore_errors = True
"""


def wanted() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


class CustomBuildHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        if not wanted():
            return []
        project = tomllib.loads((Path(self.root) / "pyproject.toml").read_text())
        found: list[str] = project["dependency-groups"][COMPILER]
        return found

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not wanted() or version == "editable":
            return
        into = Path(self.directory) / "compiled"
        for extension in compiled(Path(self.root), into):
            build_data["force_include"][str(extension)] = str(extension.relative_to(into))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def compiled(root: Path, into: Path) -> list[Path]:
    """The extensions, in folders as the packages have them. Raises `CalledProcessError`."""
    shutil.rmtree(into, ignore_errors=True)
    for source in ("proto/gen", "services/nameserver", *MODULES):
        shutil.copytree(root / source, into, dirs_exist_ok=True)
    modules = [module for names in MODULES.values() for module in names]
    (into / "mypy.ini").write_text(_SETTINGS)
    command = [sys.executable, "-m", "mypyc", *modules]
    flags = f"{os.environ.get('CFLAGS', '')} {NO_WARNINGS}"
    environ = {**os.environ, "MYPYPATH": str(into), "CFLAGS": flags}
    subprocess.run(command, cwd=into, check=True, env=environ)
    shutil.rmtree(into / "build", ignore_errors=True)
    return sorted(into.rglob("*.so"))
