"""/access: users, what they may do, a decision tried out, and what was changed or refused."""

from typing import Any, Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.pages.topic import check_name
from popmq_console.reading.commands import command
from popmq_console.reading.sheets import QUERY_CHARS_MAX, Column, asked, sheet
from popmq_console.visit import CLUSTER, FormRefused, Visit
from popmq_readings.access_words import ACTIONS, KINDS, entry_text, known

USER_CHANGES: Final = ("enable", "disable", "rotate", "drop-old", "delete")
LINES_SHOWN: Final = 50
LINE_KINDS: Final = {"": "all", "change": "changes", "refused": "refusals"}
TIME_DIGITS_MAX: Final = 15
COLUMNS: Final[dict[str, Column[admin.User]]] = {
    "name": lambda one: one.username,
    "type": lambda one: one.type,
    "status": lambda one: one.status,
}


async def access(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    users = await visit.ask_or_none("ListUsers", admin.ListUsersRequest())
    acls = await visit.ask_or_none("ListAcls", admin.ListAclsRequest())
    limits = await visit.ask_or_none("ListLimits", admin.ListLimitsRequest())
    wanted = asked(visit.parameters, list(COLUMNS), "name")
    found = list(users.users) if users is not None else []
    tested, wrong = await _tested(visit)
    return visit.page(
        "access.html",
        area="/access",
        users=users,
        sheet=sheet(found, wanted, COLUMNS, lambda one: one.username),
        entries=entries_by_user(acls),
        limits=[] if limits is None else list(limits.limits),
        tested=tested,
        wrong=wrong,
        entry_text=entry_text,
        standing=visit.standing,
        actions=ACTIONS,
        kinds=KINDS,
        trail=await _trail(visit),
        kinds_of_line=LINE_KINDS,
        changes=visit.console.changes.all() if await _may_see_changes(visit) else None,
        may_update=await visit.may_change(CLUSTER, "Update"),
    )


async def _trail(visit: Visit) -> Any:
    """Changes and refusals at every proxy, as the address asks; None: this visitor may not know, or
    the server is older. Raises `CallFailed`."""
    given = visit.parameters
    what, before = given.get("what", ""), given.get("before", "")
    is_time = before.isascii() and before.isdigit() and len(before) <= TIME_DIGITS_MAX
    request = admin.ListAuditLinesRequest(
        what=what if what in LINE_KINDS else "",
        text=given.get("trail", "").strip()[:QUERY_CHARS_MAX],
        before_ms=int(before) if is_time else 0,
        count_max=LINES_SHOWN,
    )
    return await visit.ask_or_none("ListAuditLines", request)


async def _may_see_changes(visit: Visit) -> bool:
    return await visit.may(CLUSTER, "Get")


def entries_by_user(
    acls: admin.ListAclsResponse | None,
) -> dict[str, list[tuple[str, admin.AclEntry]]]:
    """User → (policy, entry)."""
    found: dict[str, list[tuple[str, admin.AclEntry]]] = {}
    for acl in acls.acls if acls is not None else ():
        name = acl.subject.partition(":")[2]
        for policy in acl.policies:
            found.setdefault(name, []).extend((policy.type, entry) for entry in policy.entries)
    return found


async def _tested(visit: Visit) -> tuple[admin.TestAccessResponse | None, str]:
    """What the address asks for; empty: nothing. And what is wrong with it."""
    given = visit.parameters
    if not given.get("resource"):
        return None, ""
    try:
        action = known(given.get("action", ""), ACTIONS)
    except ValueError as mistake:
        return None, str(mistake)
    request = admin.TestAccessRequest(
        username=given.get("user", "").strip(),
        resource=given["resource"].strip(),
        actions=[action],
        source_ip=given.get("ip", "").strip(),
    )
    return await visit.ask("TestAccess", request), ""


async def create_user(visit: Visit) -> Response:
    """The secret is shown once. Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    name, is_super = str(form.get("name", "")).strip(), form.get("type") == "SUPER"
    text = command("user", "create", name, super=is_super)
    request = admin.CreateUserRequest(username=name, type="SUPER" if is_super else "NORMAL")
    made = await visit.change("CreateUser", request, text)
    return _secret(visit, made, f"User {name} is created")


def _secret(visit: Visit, made: admin.UserResponse, title: str) -> Response:
    return visit.page("secret.html", area="/access", made=made, title=title)


async def user_page(visit: Visit) -> Response:
    """Asks before a change. Raises `FormRefused`."""
    name, how = visit.request.path_params["name"], visit.parameters.get("how", "")
    facts = {
        "enable": "Requests of this user are accepted again.",
        "disable": "Every proxy refuses this user within a second, also on open streams.",
        "rotate": "A second secret is made and shown once; the present one stays valid.",
        "drop-old": "The older of two secrets ends; clients that still use it are refused.",
        "delete": "The user and all its policies are gone.",
    }
    if how not in facts:
        raise FormRefused(f"The address names no change: ?how= one of {', '.join(facts)}")
    return visit.page(
        "confirm.html",
        area="/access",
        trail=[("/access", "Access")],
        title=f"{how.capitalize()}: user {name}",
        facts=[facts[how]],
        name=name,
        action=f"/access/user/{how}",
        button=how.capitalize(),
        shell=_user_command(name, how),
        hidden={"user": name},
    )


def _user_command(name: str, how: str) -> str:
    if how in ("enable", "disable"):
        return command("user", "update", name, **{how: True})
    if how == "drop-old":
        return command("user", "rotate", name, drop_old=True)
    return command("user", how, name)


async def change_user(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    how = visit.request.path_params["how"]
    form = await visit.change_form()
    name = str(form.get("user", ""))
    if how not in USER_CHANGES:
        raise FormRefused(f"{how!r} is no change of a user.")
    check_name(str(form.get("name", "")), name)
    text = _user_command(name, how)
    if how in ("enable", "disable"):
        status = "ENABLED" if how == "enable" else "DISABLED"
        update = admin.UpdateUserRequest(username=name, status=status)
        await visit.change("UpdateUser", update, text)
    elif how == "delete":
        await visit.change("DeleteUser", admin.DeleteUserRequest(username=name), text)
    else:
        rotate = admin.RotateUserRequest(username=name, drop_old=how == "drop-old")
        made = await visit.change("RotateUser", rotate, text)
        if made.secret:
            return _secret(visit, made, f"User {name} has a second secret")
    visit.tell(f"Done: {how} of user {name}.")
    return visit.go("/access")


async def put_entry(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    name, resource = str(form.get("user", "")).strip(), str(form.get("resource", "")).strip()
    actions = [str(one) for one in form.getlist("action")]
    decision, policy = str(form.get("decision", "Allow")), str(form.get("policy", "Custom"))
    ips = str(form.get("ips", "")).replace(",", " ").split()
    if not actions:
        raise FormRefused("Choose at least one action.")
    entry = admin.AclEntry(resource=resource, actions=actions, decision=decision, source_ips=ips)
    text = command(
        "acl",
        "update",
        name,
        resource=resource,
        action=",".join(actions),
        decision=decision.lower(),
        source_ip=ips,
        policy=policy.lower() if policy != "Custom" else "",
    )
    request = admin.PutAclRequest(subject=f"User:{name}", policy_type=policy, entries=[entry])
    await visit.change("PutAcl", request, text)
    visit.tell(f"{name}: {entry_text(entry)}.")
    return visit.go("/access")


async def delete_entry(visit: Visit) -> Response:
    """Raises `FormRefused`, `CallFailed`."""
    form = await visit.change_form()
    name, resource = str(form.get("user", "")), str(form.get("resource", ""))
    policy = str(form.get("policy", ""))
    if not resource:
        raise FormRefused("The form names no resource. Load the page again.")
    text = command("acl", "delete", name, resource=resource, policy=policy.lower(), yes=True)
    request = admin.DeleteAclRequest(subject=f"User:{name}", policy_type=policy, resource=resource)
    done = await visit.change("DeleteAcl", request, text)
    if not done.entries:
        raise FormRefused("There was no such entry.")
    visit.tell(f"The entry of {name} for {resource} is deleted.")
    return visit.go("/access")
