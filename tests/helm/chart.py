"""The chart as helm renders it, with several sets of values.

`make helm` sets HELM, and KUBERNETES_VALIDATE, which knows Kubernetes's own schemas.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/popmq"
COMPOSE = yaml.safe_load((ROOT / "deploy/docker-compose.yml").read_text())["services"]
OLDEST, NEWEST = "1.28.0", "1.37.0"
NAMESPACE = "queues"
EVERYTHING = {
    "image.repository": "registry.example/popmq",
    "linkSecret.existingSecret": "mine",
    "broker.storage.storageClass": "fast",
    "broker.storage.labels.backup": "daily",
    "broker.linkTlsSecret": "link",
    "broker.env.POPMQ_BROKER_LOG_LEVEL": "debug",
    "broker.nodeSelector.disk": "ssd",
    "broker.podAnnotations.note": "x",
    "proxy.autoscaling.enabled": "true",
    "proxy.tlsSecret": "clients",
    "proxy.linkTlsCaSecret": "link-ca",
    "proxy.adminSecret": "admin",
    "proxy.env.POPMQ_PROXY_CREATE_TOPICS": "false",
    "proxy.tolerations[0].operator": "Exists",
    "nameserver.replicas": "3",
    "service.type": "LoadBalancer",
    "service.annotations.note": "x",
    "service.loadBalancerSourceRanges[0]": "10.0.0.0/8",
    "image.pullSecrets[0].name": "registry",
    "metrics.serviceMonitor.enabled": "true",
    "metrics.serviceMonitor.labels.release": "prometheus",
}
SECURED = {
    "tls.enabled": "true",
    "tls.existingSecret": "popmq-tls",
    "proxy.tlsSecret": "clients",
    "proxy.env.POPMQ_PROXY_TLS_ONLY": "true",
    "metrics.serviceMonitor.enabled": "true",
}
SERVICE_TLS = "/service-tls"
Thing = dict[str, Any]
if not {"HELM", "KUBERNETES_VALIDATE"} <= os.environ.keys():
    pytest.fail("run it by: make helm", pytrace=False)


def helm(
    *arguments: str, settings: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    named = [f"--set={name}={value}" for name, value in (settings or {}).items()]
    command = [os.environ["HELM"], *arguments, *named, "--kube-version", OLDEST]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def render(settings: dict[str, str] | None = None, release: str = "popmq") -> list[Thing]:
    done = helm("template", release, str(CHART), "--namespace", NAMESPACE, settings=settings)
    assert done.returncode == 0, done.stderr
    return [thing for thing in yaml.safe_load_all(done.stdout) if thing]


DEFAULT, FULL, WITH_TLS = render(), render(EVERYTHING), render(SECURED)
EACH = pytest.mark.parametrize(
    "things", [DEFAULT, FULL, WITH_TLS], ids=["default", "everything", "secured"]
)


def workloads(things: list[Thing]) -> dict[str, Thing]:
    """By what they run: broker, proxy, nameserver."""
    found = [thing for thing in things if thing["kind"] in ("Deployment", "StatefulSet")]
    return {container(thing)["args"][0]: thing for thing in found}


def pod(workload: Thing) -> Thing:
    found: Thing = workload["spec"]["template"]["spec"]
    return found


def container(workload: Thing) -> Thing:
    (found,) = pod(workload)["containers"]
    assert isinstance(found, dict)
    return found


def env(workload: Thing) -> dict[str, str]:
    """As the first pod has it; no variable is there twice."""
    listed = container(workload)["env"]
    found: dict[str, str] = {}
    for one in listed:
        assert one["name"] not in found
        value = one.get("value", f"{workload['metadata']['name']}-0")
        for name in re.findall(r"\$\((\w+)\)", value):
            value = value.replace(f"$({name})", found[name])  # Kubernetes knows those before it
        found[one["name"]] = value
    return found
