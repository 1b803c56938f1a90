"""A service that starts again is waited for: it loads what it serves, not what the others do."""

import subprocess
import sys

import pytest

LOADED = "import sys, popmq_cli.servers.run_{name}; print(*sys.modules, sep='\\n')"
OTHERS = {
    "broker": {"popmq_proxy", "popmq_nameserver", "apache", "cryptography", "pyarrow"},
    "nameserver": {"popmq_proxy", "popmq_broker", "apache", "cryptography", "lark"},
    "proxy": {"popmq_broker", "popmq_nameserver", "lark", "pyarrow"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_service_loads_nothing_of_the_others(name: str) -> None:
    program = [sys.executable, "-c", LOADED.format(name=name)]
    done = subprocess.run(program, capture_output=True, check=True, text=True, timeout=120)
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert f"popmq_{name}" in loaded
    assert not OTHERS[name] & loaded
