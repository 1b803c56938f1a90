"""T72: one container, on volumes and memory as users have them, works or says why not in a line."""

import os

import pytest
from compose.alone import standalone
from compose.cluster import Cluster, run
from compose.traffic import bodies, receive, send

IMAGE = "popmq-test"
BROKER = ("-e", "POPMQ_BROKER_DATA_DIR=/data", "--read-only", "--tmpfs", "/tmp")
pytestmark = [pytest.mark.compose, pytest.mark.timeout(300)]


def failed(*arguments: str) -> list[str]:
    """The lines that a broker says who cannot start."""
    name = f"popmq-test-{os.urandom(4).hex()}"
    run("docker", "run", "--detach", "--name", name, *BROKER, *arguments, IMAGE, "broker")
    try:
        assert int(run("docker", "wait", name)) == 1
        said = run("sh", "-c", f"docker logs {name} 2>&1").splitlines()
    finally:
        run("docker", "rm", "--force", "--volumes", name)
    return said


def test_t72_a_volume_of_another_user_takes_one_line(cluster: Cluster) -> None:
    (line,) = failed("--tmpfs", "/data:uid=0,mode=0755")
    assert "/data belongs to user 0; chown -R 10001 it" in line


def test_t72_no_volume_takes_one_line(cluster: Cluster) -> None:
    (line,) = failed("-e", "POPMQ_BROKER_DATA_DIR=/missing/data")
    assert "read-only; mount a disk or a volume there" in line


async def test_t72_a_standalone_in_little_memory_at_any_port_works(cluster: Cluster) -> None:
    sent = bodies("small", 200)
    async with standalone(IMAGE) as client:
        await client.receive("small", "readers", wait_s=1)  # the group begins here
        await send(client, "small", sent)
        assert set(await receive(client, "small", "readers", sent)) >= sent
