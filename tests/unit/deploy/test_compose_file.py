"""What must hold of every service of the cluster, read from the file; tests/compose runs it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())[
    "services"
]
BATCH = {"audit", "link-secret", "reconciliation"}
"""They serve nobody, so nobody asks how they are."""


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_contained(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["init"], "nobody reaps, and SIGTERM may be ignored"
    assert service["stop_grace_period"]
    assert {"mem_limit", "cpus", "pids_limit", "logging"} <= service.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_can_be_asked_how_it_is(name: str) -> None:
    assert ("healthcheck" in SERVICES[name]) == (name not in BATCH)


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_written_lies_in_a_named_volume_or_in_memory(name: str) -> None:
    named = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["volumes"]
    for volume in SERVICES[name].get("volumes", []):
        source, mode = volume.partition(":")[0], volume.rpartition(":")[2]
        assert source in named or (source.startswith("./monitoring") and mode == "ro")


def test_only_this_machine_is_let_in_unless_said() -> None:
    for name, service in SERVICES.items():
        who = "POPMQ_BIND" if name == "balancer" else "POPMQ_OPERATORS_BIND"
        for port in service.get("ports", []):
            assert port.startswith(f"${{{who}:-127.0.0.1}}:"), name


def test_every_variable_is_in_the_example_with_its_default() -> None:
    text = (DEPLOY / "docker-compose.yml").read_text()
    used = dict(re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", text))
    example = dict(re.findall(r"^#?([A-Z0-9_]+)=(.*)$", (DEPLOY / "env.example").read_text(), re.M))
    assert example == used


def test_a_broker_is_on_no_network_that_leads_outside() -> None:
    networks = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())["networks"]
    inside = {name for name, network in networks.items() if network and network.get("internal")}
    for name, service in SERVICES.items():
        if name.startswith(("broker", "nameserver")):
            assert set(service["networks"]) <= inside
            assert "ports" not in service
