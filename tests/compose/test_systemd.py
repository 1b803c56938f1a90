"""systemd itself reads the units, in a container that has it and what they start."""

import pytest
from compose.cluster import BUILD_S, DEPLOY, Cluster, run

IMAGE = "popmq-systemd-test"
DOCKERFILE = """FROM popmq-test
USER root
RUN apt-get update && apt-get install -y --no-install-recommends systemd
"""
EXPOSURE_TENTHS_MAX = "20"
"""systemd's own measure: 0 for what may do nothing, 100 for root; 96 is a unit without any line."""
pytestmark = [pytest.mark.compose, pytest.mark.timeout(2400)]
UNITS = ["broker@broker-a", "proxy@1", "nameserver", "standalone"]


@pytest.fixture(scope="module")
def analyze(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("systemd")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    run("docker", "build", "--quiet", "-t", IMAGE, str(folder), timeout_s=BUILD_S)
    units = f"{DEPLOY / 'systemd'}:/etc/systemd/system:ro"
    return ["docker", "run", "--rm", "-v", units, "--entrypoint", "systemd-analyze", IMAGE]


def test_systemd_finds_nothing_wrong(analyze: list[str]) -> None:
    files = [f"popmq-{unit}.service" for unit in UNITS]
    # what it says of other units on the way is not ours
    said = run(*analyze, "verify", "--recursive-errors=no", *files)
    assert [line for line in said.splitlines() if "popmq" in line] == []


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_not_exposed(analyze: list[str], unit: str) -> None:
    """The exit code tells: above the threshold it is not 0."""
    security = ["security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_TENTHS_MAX}"]
    said = run(*analyze, *security, f"popmq-{unit}.service")
    print("\n" + said.strip().splitlines()[-1])
