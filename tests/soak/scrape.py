"""A broker's /metrics, and the law that its counts keep: nothing appears, nothing is forgotten."""

import re
import urllib.request
from collections import defaultdict

from soak.ledger import Bounds

Rows = dict[str, dict[tuple[str, str], int]]
"""Figure → (topic as stored, group) → messages."""
_SAMPLE = re.compile(
    r'^popmq_consumer_(\w+)_messages\{consumer_group="([^"]*)",topic="([^"]*)"\} (\S+)$', re.M
)
PARTS = ("settled", "ready", "inflight", "delayed", "blocked", "expired")
TIMEOUT_S = 2.0


def scrape(port: int) -> Rows:
    """Raises `OSError` while the broker is down."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as page:
        return rows_of(page.read().decode())


def rows_of(page: str) -> Rows:
    found: Rows = defaultdict(dict)
    for figure, group, topic, value in _SAMPLE.findall(page):
        found[figure][topic, group] = int(float(value))
    return found


def breaches(
    rows: Rows, topic_of: dict[str, str], stored: dict[str, Bounds], done: dict[str, Bounds]
) -> list[str]:
    """What does not add up. `stored`, `done`: what clients knew around the scrape, by group."""
    found = []
    for row, count in rows.get("stored", {}).items():
        parts = {part: rows[part][row] for part in PARTS}
        if count != sum(parts.values()) or min(parts.values()) < 0:
            found.append(f"{row}: stored {count}, but {parts}")
    for group, topic in topic_of.items():
        found += _against_clients(rows, group, topic, stored[group], done[group])
    return found


def _against_clients(rows: Rows, group: str, topic: str, stored: Bounds, done: Bounds) -> list[str]:
    row, retry = (topic, group), (f"%RETRY%{group}_{topic}", group)
    if row not in rows.get("stored", {}):
        return []  # it has not received yet
    has = rows["stored"][row]
    settled = rows["settled"][row] + rows["settled"].get(retry, 0)
    finished = settled - rows["stored"].get(retry, 0)
    found = []
    if not stored.least <= has <= stored.most:
        found.append(f"{row}: {has} stored, clients know of {stored.least} to {stored.most}")
    if not done.least <= finished <= done.most:
        found.append(f"{row}: {finished} done with, clients know of {done.least} to {done.most}")
    return found


def left(rows: Rows) -> int:
    """Messages that some group has not settled."""
    return sum(sum(rows[part].values()) for part in ("ready", "inflight", "delayed", "blocked"))
