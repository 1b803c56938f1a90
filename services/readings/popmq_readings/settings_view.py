"""Settings of all brokers and proxies, side by side: who has which value, and what set it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin

DEFAULT: Final = "default"
OWN: Final = frozenset(
    {
        "NAME",
        "HOST",
        "PORT",
        "ADVERTISE",
        "DATA_DIR",
        "REPLICA",
        "HEALTH_PORT",
        "METRICS_PORT",
        "TLS_PORT",
        "TLS_CERT",
        "LINK_TLS_CERT",
        "METRICS_TLS_CERT",
        "REGISTER_TLS_CERT",
        "AUDIT_LOG",
    }
)
"""What services of one role have each for themselves: that it differs says nothing."""


class SettingAt(NamedTuple):
    service: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One variable, at all services of its role."""

    role: str
    name: str
    at: Sequence[SettingAt]
    differs: bool
    """Services of one role have different values, and should not."""

    @property
    def is_changed(self) -> bool:
        """At one of them it is not the default."""
        return any(one.source != DEFAULT for one in self.at)

    @property
    def alike(self) -> list[tuple[SettingAt, list[str]]]:
        """Each value and source once, with the services that have it."""
        found: dict[tuple[str, str], tuple[SettingAt, list[str]]] = {}
        for one in self.at:
            found.setdefault((one.value, one.source), (one, []))[1].append(one.service)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class SettingsView:
    rows: Sequence[SettingRow]
    """Brokers' first, in the order in which they tell them."""
    failures: Sequence[tuple[str, str]]
    """Service, and why its settings are not known."""


def settings_view(services: Iterable[admin.ServiceSettings]) -> SettingsView:
    found: dict[tuple[str, str], list[SettingAt]] = {}
    told: dict[str, int] = {}
    failures = []
    for service in services:
        if service.failure:
            failures.append((service.name, service.failure))
            continue
        told[service.role] = told.get(service.role, 0) + 1
        for one in service.settings:
            at = SettingAt(service.name, one.value, one.source)
            found.setdefault((service.role, one.name), []).append(at)
    rows = [
        SettingRow(role, name, at, _differs(name, at, told[role]))
        for (role, name), at in found.items()
    ]
    return SettingsView(rows, failures)


def _differs(name: str, at: Sequence[SettingAt], services: int) -> bool:
    """Also when one of them does not have the variable: it is of another version."""
    short = name.partition("_")[2].partition("_")[2]
    return short not in OWN and (len({one.value for one in at}) > 1 or len(at) < services)


def chosen_rows(
    rows: Iterable[SettingRow], text: str = "", *, changed: bool = False, differing: bool = False
) -> list[SettingRow]:
    """Those with the text in the name or in a value, without regard to case; `changed`: those that
    are not the default somewhere; `differing`: those that differ and should not."""
    wanted = text.casefold()
    return [
        row
        for row in rows
        if (row.is_changed or not changed)
        and (row.differs or not differing)
        and (
            not wanted
            or wanted in row.name.casefold()
            or any(wanted in one.value.casefold() for one in row.at)
        )
    ]
