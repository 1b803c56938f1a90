"""Which connection a server parts with when it has too much to do: its client comes again, and to
another server."""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def connection_to_move(recent_s: Mapping[K, float], share: float) -> K | None:
    """`recent_s`: what each connection took of a second. `share`: of all that, which both servers
    would be equal without.

    The one that comes nearest from below; the smallest, if that is still better than none. None:
    no other would be helped.
    """
    parts = {key: taken_s for key, taken_s in recent_s.items() if taken_s > 0}
    all_s = sum(parts.values())
    if len(parts) < 2:
        return None
    fitting = [key for key, taken_s in parts.items() if taken_s <= share * all_s]
    if fitting:
        return max(fitting, key=lambda key: parts[key])
    smallest = min(parts, key=lambda key: parts[key])
    return smallest if parts[smallest] < 2 * share * all_s else None
