"""What the cluster's Prometheus knows."""

import asyncio
import json
import urllib.request
from typing import Any
from urllib.parse import quote

from compose.cluster import Cluster


async def query(cluster: Cluster, expression: str) -> list[dict[str, Any]]:
    """The rows that answer it now."""
    rows: list[dict[str, Any]] = (await _get(cluster, f"query?query={quote(expression)}"))["result"]
    return rows


async def firing(cluster: Cluster) -> set[str]:
    """Names of the alerts that fire; what is still pending may pass."""
    alerts = (await _get(cluster, "alerts"))["alerts"]
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


async def _get(cluster: Cluster, what: str) -> dict[str, Any]:
    url = f"http://127.0.0.1:{cluster.port('prometheus', 9090)}/api/v1/{what}"

    def get() -> dict[str, Any]:
        with urllib.request.urlopen(url, timeout=10) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data

    return await asyncio.to_thread(get)
