"""/audit: what the last audit of each broker's messages said."""

import asyncio
import shlex

from starlette.responses import Response

from popmq_console.reading.audit_reports import AuditReport, audit_reports
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.visit import CLUSTER, Visit


async def audit(visit: Visit) -> Response:
    """Findings name topics, groups and messages of all. Raises `CallFailed`."""
    if not await visit.may(CLUSTER, "Get"):
        raise CallFailed(Failure.DENIED, "the audit's reports need Get on the cluster")
    folder = visit.console.config.audit_dir
    reports: list[AuditReport] = []
    failure = ""
    if folder is not None:
        try:
            reports = await asyncio.to_thread(audit_reports, folder)
        except OSError as failed:
            failure = str(failed)
    return visit.page(
        "audit.html",
        area="/audit",
        folder=folder,
        reports=reports,
        failure=failure,
        shell=shlex.join(["popmq-pipelines", "report", "--out", str(folder)]),
    )
