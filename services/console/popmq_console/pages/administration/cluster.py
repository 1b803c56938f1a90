"""/cluster: brokers, proxies, nameservers, disks, and settings: of these, and of this console."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.readings import inspected, look
from popmq_console.config import ConsoleConfig
from popmq_console.pages.topic import check_name
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.reading.commands import command
from popmq_console.reading.sheets import Column, Sheet, asked, sheet
from popmq_console.visit import CLUSTER, FormRefused, Visit
from popmq_readings.settings_view import SettingRow, SettingsView, chosen_rows, settings_view
from popmq_readings.times import duration_text

PERMISSIONS = ("read", "read-write")
SETTINGS_KEPT_MS: Final = 10_000
"""They change with a restart alone."""
SHOWS: Final = {
    "": "all",
    "changed": "not the default",
    "differing": "different, and should not be",
}
COLUMNS: Final[Mapping[str, Column[SettingRow]]] = {
    "role": lambda row: row.role,
    "name": lambda row: row.name,
}


async def cluster(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    view, state = await look(visit), await inspected(visit)
    if view is None or state is None:
        raise CallFailed(Failure.DENIED, "the cluster's figures need Get on the cluster")
    settings = await cluster_settings(visit)
    figures = {answer.name: answer.figures for answer in view.brokers}
    return visit.page(
        "cluster.html",
        area="/cluster",
        view=view,
        brokers=[(one, figures.get(one.name)) for one in state.brokers],
        settings=settings,
        sheet=settings and _settings_sheet(visit.parameters, settings.rows),
        shows=SHOWS,
        own_settings=settings_of(visit.console.config),
        standing=visit.standing,
        may_update=await visit.may_change(CLUSTER, "Update"),
    )


async def cluster_settings(visit: Visit) -> SettingsView | None:
    """None: this visitor may not know, or the server is older. Raises `CallFailed`."""
    request = admin.ShowSettingsRequest()
    told = await visit.ask_or_none("ShowSettings", request, kept_ms=SETTINGS_KEPT_MS)
    return None if told is None else settings_view(told.services)


def _settings_sheet(parameters: Mapping[str, str], rows: Sequence[SettingRow]) -> Sheet[SettingRow]:
    """What the address asks for."""
    show = parameters.get("show", "")
    text = parameters.get("q", "").strip()
    found = chosen_rows(rows, text, changed=show == "changed", differing=show == "differing")
    wanted = replace(asked(parameters, list(COLUMNS), "role"), query="")
    cut = sheet(found, wanted, COLUMNS, lambda row: row.name)
    return replace(cut, asked=replace(cut.asked, query=text), unfiltered=len(rows))


def settings_of(config: ConsoleConfig) -> Mapping[str, tuple[object, str]]:
    """What is in force, and what sets it."""
    tls = "no" if config.tls is None else "yes"
    tls += ", with a client certificate" if config.tls and config.tls.certificate else ""
    return {
        "endpoint": (config.endpoint, config.endpoint_from),
        "TLS to the proxy": (tls, "the endpoint, --tls, or the context"),
        "admin secret": ("yes" if config.admin_secret else "no", "--secret-file"),
        "address": (f"{config.host}:{config.port}", "--host, --port"),
        "path prefix": (config.path_prefix or "none", "--path-prefix"),
        "masks": (str(len(config.masks)) if config.masks else "none", "--mask-file"),
        "Protobuf types": (str(len(config.protobuf) or "none"), "--descriptors, --topic-type"),
        "audit reports": (config.audit_dir or "none", "--audit-dir"),
        "host names": (", ".join(config.allowed_hosts) or "addresses alone", "--allowed-host"),
        "read-only": ("yes" if config.read_only else "no", "--read-only"),
        "cookie over HTTPS alone": ("yes" if config.secure_cookie else "no", "--secure-cookie"),
        "a session ends": (
            f"{duration_text(config.session_ms)} after the log-in, "
            f"or {duration_text(config.idle_ms)} after the last page",
            "fixed",
        ),
    }


async def permission_page(visit: Visit) -> Response:
    """Raises `FormRefused`."""
    broker, allowed = visit.parameters.get("broker", ""), visit.parameters.get("to", "")
    if not broker or allowed not in PERMISSIONS:
        raise FormRefused("The address names no change: ?broker=…&to=read or read-write")
    facts = ["Clients may send to it again."]
    if allowed == "read":
        facts = [
            "New messages go to other brokers; what it holds can still be received.",
            "New messages of message groups that have their place on it are refused.",
        ]
    title = f"Make {broker} read-only" if allowed == "read" else f"Let clients write to {broker}"
    return visit.page(
        "confirm.html",
        area="/cluster",
        trail=[("/cluster", "Cluster")],
        title=title,
        facts=facts,
        name=broker,
        action="/cluster/permission",
        button=title,
        shell=command("permission", broker, allowed),
        hidden={"broker": broker, "to": allowed},
    )


async def set_permission(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    broker, allowed = str(form.get("broker", "")), str(form.get("to", ""))
    check_name(str(form.get("name", "")), broker)
    request = admin.SetPermissionRequest(broker=broker, permission=allowed)
    await visit.change("SetPermission", request, command("permission", broker, allowed))
    visit.tell(f"Clients may {allowed.replace('-', ' and ')} at {broker}.")
    return visit.go("/cluster")
