"""/later: delayed messages, and transactions that nobody has settled."""

from typing import Any, Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.asking.readings import look
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.reading.commands import command
from popmq_console.visit import FormRefused, Visit

SHOWN_MAX: Final = 200
DELAYED_SHOWN: Final = 50
DELAYED_KEPT_MS: Final = 2_000
SETTLED: Final = {"commit": True, "rollback": False}


async def later(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    topic = visit.parameters.get("topic", "").strip()
    view = await look(visit)
    request = admin.ListTransactionsRequest(topic=topic, count_max=SHOWN_MAX)
    open_ones, why_not = None, ""
    try:
        open_ones = await visit.ask("ListTransactions", request)
    except CallFailed as failed:
        if failed.failure not in (Failure.DENIED, Failure.NOT_THERE):
            raise
        why_not = failed.text
    delayed, why_no_delayed = await _delayed(visit, topic)
    return visit.page(
        "later.html",
        area="/later",
        view=view,
        delayed=delayed,
        why_no_delayed=why_no_delayed,
        topic=topic,
        transactions=[] if open_ones is None else list(open_ones.transactions),
        count=None if open_ones is None else open_ones.count,
        why_not=why_not,
        may_settle=await visit.may_change("Cluster:DefaultCluster", "Update"),
        may_recall=not visit.why_read_only,
    )


async def _delayed(visit: Visit, topic: str) -> tuple[Any, str]:
    """The next that are due, as the address asks; or why they are not told. Raises `CallFailed`."""
    cursor = visit.parameters.get("cursor", "")
    request = admin.ListDelayedRequest(topic=topic, count_max=DELAYED_SHOWN, cursor=cursor)
    try:
        return await visit.ask("ListDelayed", request, kept_ms=DELAYED_KEPT_MS), ""
    except CallFailed as failed:
        if failed.failure not in (Failure.DENIED, Failure.NOT_THERE, Failure.OLDER):
            raise
        return None, failed.text


async def settle_page(visit: Visit) -> Response:
    """Raises `FormRefused` for an address that names none."""
    transaction_id, how = visit.parameters.get("id", ""), visit.parameters.get("how", "")
    if not transaction_id or how not in SETTLED:
        raise FormRefused("The address names no transaction: ?id=…&how=commit or rollback")
    does = "is delivered" if how == "commit" else "is dropped, and nobody ever receives it"
    return visit.page(
        "confirm.html",
        area="/later",
        trail=[("/later", "Delayed and transactions")],
        title=f"{'Commit' if how == 'commit' else 'Roll back'} a transaction",
        facts=[
            f"Transaction {transaction_id} is settled instead of its producer.",
            f"Its message {does}.",
        ],
        name="",
        action="/later/settle",
        button="Commit" if how == "commit" else "Roll back",
        shell=command("transaction", how, transaction_id),
        hidden={"id": transaction_id, "how": how},
    )


async def settle(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    transaction_id, how = str(form.get("id", "")), str(form.get("how", ""))
    if how not in SETTLED:
        raise FormRefused("The form is written wrongly. Load the page again.")
    request = admin.SettleTransactionRequest(transaction_id=transaction_id, commit=SETTLED[how])
    await visit.change("SettleTransaction", request, command("transaction", how, transaction_id))
    visit.tell(f"The transaction is {'committed' if how == 'commit' else 'rolled back'}.")
    return visit.go("/later")
