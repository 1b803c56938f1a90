"""The HTTP/2 front against h2spec: every rule of RFC 9113 and 7541 that it has a case for.

`--strict` adds what an endpoint should do to what it must do. There are no exceptions.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from front.server import serving

pytestmark = pytest.mark.golang
HERE = Path(__file__).parent
COMMAND = "github.com/summerwind/h2spec/cmd/h2spec"
CASE_S = "30"
"""How long one case waits for an answer."""
CASES = 146


@pytest.fixture(scope="module")
def h2spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.fail("go is missing: install Go 1.25 or newer")
    built = tmp_path_factory.mktemp("h2spec") / "h2spec"
    subprocess.run([go, "build", "-o", str(built), COMMAND], cwd=HERE, check=True, timeout=600)
    return built


@pytest.mark.timeout(900)
@pytest.mark.parametrize("options", [[], ["--tls", "--insecure"]], ids=["plaintext", "tls"])
def test_the_front_passes_every_case(h2spec: Path, tmp_path: Path, options: list[str]) -> None:
    with serving("http2", tmp_path) as server:
        port = server.endpoint.rpartition(":")[2]
        command = [str(h2spec), "--strict", "--timeout", CASE_S, "--port", port, *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=800)
        assert server.process.poll() is None, "the server died"
    summary = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", run.stdout)
    assert summary is not None, run.stdout + run.stderr
    assert [int(count) for count in summary.groups()] == [CASES, CASES, 0, 0], run.stdout
    assert run.returncode == 0
