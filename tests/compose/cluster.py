"""The cluster of deploy/docker-compose.yml, under a project name of its own.

A project's name decides whose containers and volumes `down --volumes` takes away: never those of a
cluster that runs on this machine under the file's own name.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # `down` cleans up

from testcontainers.compose import DockerCompose

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
INSTALL = "no Docker engine answers; install it: curl -fsSL https://get.docker.com | sh"
COMMAND_S = 120


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster; services by their names in the file."""

    compose: DockerCompose

    def endpoint(self, service: str) -> str:
        return f"127.0.0.1:{self.port(service, 8081)}"

    def port(self, service: str, port: int) -> int:
        published = self.compose.get_service_port(service, port)
        assert published is not None
        return published

    def inspect(self, service: str) -> Any:
        """The container's `State`."""
        text = run("docker", "inspect", self._container(service), "--format", "{{json .State}}")
        return json.loads(text)

    def docker(self, verb: str, service: str) -> None:
        """kill, stop, start … the service's container."""
        run("docker", verb, self._container(service))

    def start(self, service: str) -> None:
        """Start it again; returns when it is healthy."""
        self.compose_command("up", "--no-build", "--wait", service)

    def _container(self, service: str) -> str:
        container = self.compose.get_container(service, include_all=True).ID
        assert container is not None
        return container

    def compose_command(self, *arguments: str, timeout_s: int = COMMAND_S) -> str:
        return run(*self.compose.compose_command_property, *arguments, timeout_s=timeout_s)


def run(*command: str, timeout_s: int = COMMAND_S) -> str:
    """What it printed. An exit code that is not 0 fails with both outputs."""
    done = subprocess.run(
        command, cwd=DEPLOY, capture_output=True, check=False, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr[-4000:]}"
    return done.stdout
