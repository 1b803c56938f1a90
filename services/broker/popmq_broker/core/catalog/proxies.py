"""Proxies that told this broker of themselves: nothing else knows all of them.

A proxy has no registration anywhere and keeps nothing, so whoever wants to see the cluster asks the
brokers whom they heard of. Nothing is decided by it.
"""

from collections import OrderedDict
from typing import Final

from popmq_internal.v1 import link_pb2 as link

SILENT_MS: Final = 16_000
"""Silence after which a proxy is gone: three of its signs."""
PROXIES_MAX: Final = 1_000
"""Processes that are remembered; who was silent longest is forgotten first."""


class Proxies:
    def __init__(self, count_max: int = PROXIES_MAX) -> None:
        self._count_max = count_max
        self._heard: OrderedDict[str, tuple[int, link.ProxyFigures]] = OrderedDict()

    def heard(self, figures: link.ProxyFigures, now_ms: int) -> None:
        self._heard[figures.id] = now_ms, figures
        self._heard.move_to_end(figures.id)
        if len(self._heard) > self._count_max:
            self._heard.popitem(last=False)

    def alive(self, now_ms: int) -> list[link.ProxyFigures]:
        """By id; the silent ones are forgotten."""
        for name in [name for name, (ms, _) in self._heard.items() if now_ms - ms > SILENT_MS]:
            del self._heard[name]
        return [figures for _, (_, figures) in sorted(self._heard.items())]
