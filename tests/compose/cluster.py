"""The cluster of deploy/docker-compose.yml, under a project name of its own.

A project's name decides whose containers and volumes `down --volumes` takes away: never those of a
cluster that runs on this machine under the file's own name.
"""

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # `down` cleans up

from harness.processes import Server
from testcontainers.compose import DockerCompose

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
INSTALL = "no Docker engine answers; install it: curl -fsSL https://get.docker.com | sh"
COMMAND_S = 120
BUILD_S = 1800
CLIENTS_PORT = 8081


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster; services by their names in the file."""

    compose: DockerCompose
    started_s: float
    """How long `up --wait` took, with the images there."""

    @property
    def endpoint(self) -> str:
        """Where clients outside come in: the balancer."""
        return f"127.0.0.1:{self.port('balancer', CLIENTS_PORT)}"

    @property
    def server(self) -> Server:
        return Server(self.endpoint, self.endpoint)

    def port(self, service: str, port: int) -> int:
        published = self.compose.get_service_port(service, port)
        assert published is not None
        return published

    def containers(self, service: str) -> list[str]:
        """Ids, also of those that do not run, by number."""
        rows = [
            container
            for container in self.compose.get_containers(include_all=True)
            if container.Service == service
        ]
        return [str(row.ID) for row in sorted(rows, key=lambda row: str(row.Name))]

    def address(self, container: str) -> str:
        """host:port of one proxy, past the balancer, in Docker's network on this machine."""
        networks = inspect(container, ".NetworkSettings.Networks")
        (front,) = [networks[name] for name in networks if name.endswith("_front")]
        return f"{front['IPAddress']}:{CLIENTS_PORT}"

    def proxies(self) -> list[str]:
        return [self.address(container) for container in self.containers("proxy")]

    def group(self, name: str) -> str:
        """A group that starts at the oldest message."""
        self.server.cli("group", "create", name, "--from", "first", "--max-attempts", "1000")
        return name

    def up(self, *arguments: str) -> None:
        """What is missing is started, without a build; returns when all are healthy."""
        self.command("up", "--no-build", "--wait", *arguments)

    def command(self, *arguments: str, timeout_s: int = COMMAND_S) -> str:
        return run(*self.compose.compose_command_property, *arguments, timeout_s=timeout_s)


def started(compose: DockerCompose) -> Cluster:
    """Built, which may take long, then started."""
    run(*compose.compose_command_property, "build", "--quiet", timeout_s=BUILD_S)
    began = time.monotonic()
    compose.start()
    return Cluster(compose, time.monotonic() - began)


def inspect(container: str, what: str = ".State") -> Any:
    return json.loads(run("docker", "inspect", container, "--format", f"{{{{json {what}}}}}"))


def crash(container: str) -> None:
    """kill -9 of what runs inside: to the engine the service has died, and is started again."""
    # sh is not among those that get the signal, and may end with the container before it can say so
    killing = ["docker", "exec", container, "sh", "-c", "kill -9 -1"]
    subprocess.run(killing, capture_output=True, check=False, timeout=COMMAND_S)


def run(*command: str, timeout_s: int = COMMAND_S) -> str:
    """What it printed. An exit code that is not 0 fails with both outputs."""
    done = subprocess.run(
        command, cwd=DEPLOY, capture_output=True, check=False, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout
