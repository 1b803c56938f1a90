"""popmq.admin.v1: policies written, deleted, listed, and tried out."""

from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import IllegalAccessEntry
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.access.decide import AccessVerdict
from popmq_proxy.core.access.limits import Limits
from popmq_proxy.core.access.model import (
    ANY_NAME,
    Acl,
    Action,
    Entry,
    Need,
    Pattern,
    PolicyType,
    Resource,
    ResourceType,
    subject_of,
    username_of,
    word,
)
from popmq_proxy.core.access.table import AccessTable, judge
from popmq_proxy.rpc.access.access_tables import AccessTables
from popmq_proxy.rpc.shared.context import CallContext

ENTRIES_MAX: Final = 256
"""Of one request."""
NOT_DECIDED: Final = AccessVerdict(True, "everybody may do everything: authorization is off")


class AclsHandler:
    def __init__(self, tables: AccessTables, config: ProxyConfig) -> None:
        self._tables = tables
        self._authentication = config.authentication
        self._authorization = config.authorization

    async def put(self, ctx: CallContext, request: admin.PutAclRequest) -> admin.PutAclResponse:
        """Raises `UserNotFound`, `AclEntryExists`, `IllegalAccessEntry`."""
        username, policy = username_of(request.subject), _policy(request.policy_type)
        if not 1 <= len(request.entries) <= ENTRIES_MAX:
            reason = f"{len(request.entries)} entries; 1 to {ENTRIES_MAX} by one request"
            raise IllegalAccessEntry(reason=reason)
        entries = [_entry(one) for one in request.entries]
        table, missing = await self._tables.change(
            lambda table: table.with_entries(username, policy, entries, only_new=request.only_new)
        )
        return admin.PutAclResponse(acl=_shown(table.acls[username]), missing_brokers=missing)

    async def delete(
        self, ctx: CallContext, request: admin.DeleteAclRequest
    ) -> admin.DeleteAclResponse:
        """Raises `UserNotFound`, `NothingThere`."""
        username = username_of(request.subject)
        policy = _policy(request.policy_type) if request.policy_type else None
        resource = str(Resource.parse(request.resource)) if request.resource else ""
        gone = 0

        def edit(table: AccessTable) -> AccessTable:
            nonlocal gone
            table, gone = table.without_entries(username, policy, resource)
            return table

        _, missing = await self._tables.change(edit)
        return admin.DeleteAclResponse(entries=gone, missing_brokers=missing)

    async def list_all(
        self, ctx: CallContext, request: admin.ListAclsRequest
    ) -> admin.ListAclsResponse:
        await self._tables.refresh()
        only = username_of(request.subject) if request.subject else ""
        shown = []
        for username, acl in sorted(self._tables.current.acls.items()):
            if only in ("", username):
                part = _shown(acl, request.resource)
                if part.policies:
                    shown.append(part)
        return admin.ListAclsResponse(acls=shown)

    async def test(
        self, ctx: CallContext, request: admin.TestAccessRequest
    ) -> admin.TestAccessResponse:
        """Without a name for who asks, as the request itself would be decided. Raises
        `IllegalAccessEntry`."""
        need, address = _need(request), request.source_ip or ctx.address
        if request.username or self._authorization:
            await self._tables.refresh()
            name = request.username or ctx.user
            verdict = judge(self._tables.current, name, need, address)
        else:
            verdict = NOT_DECIDED
        response = admin.TestAccessResponse(
            allowed=verdict.allowed,
            reason=verdict.reason,
            username=request.username or ctx.user,
            authentication=self._authentication,
            authorization=self._authorization,
        )
        if verdict.entry is not None and verdict.policy is not None:
            response.policy_type = verdict.policy.value
            response.entry.CopyFrom(_shown_entry(verdict.entry))
        return response

    async def set_limits(
        self, ctx: CallContext, request: admin.SetLimitsRequest
    ) -> admin.SetLimitsResponse:
        """Raises `IllegalAccessEntry`."""
        asked = request.limits
        limits = Limits(
            asked.subject,
            asked.messages_per_s,
            asked.bytes_per_s,
            asked.waiting_receives,
            asked.calls,
            asked.connections,
            asked.creations_per_h,
        )
        _, missing = await self._tables.change(lambda table: table.with_limits(limits))
        return admin.SetLimitsResponse(missing_brokers=missing)

    async def list_limits(
        self, ctx: CallContext, request: admin.ListLimitsRequest
    ) -> admin.ListLimitsResponse:
        await self._tables.refresh()
        return admin.ListLimitsResponse(
            limits=[
                admin.Limits(
                    subject=subject,
                    messages_per_s=one.messages_per_s,
                    bytes_per_s=one.bytes_per_s,
                    waiting_receives=one.waiting_receives,
                    calls=one.calls,
                    connections=one.connections,
                    creations_per_h=one.creations_per_h,
                )
                for subject, one in sorted(self._tables.current.limits.items())
            ]
        )


def _need(request: admin.TestAccessRequest) -> Need:
    """Raises `IllegalAccessEntry`."""
    asked = Resource.parse(request.resource)
    if (
        asked.type in (ResourceType.ANY, ResourceType.NAMESPACE)
        or asked.pattern is Pattern.PREFIXED
    ):
        raise IllegalAccessEntry(
            reason=f"{request.resource!r}: requests ask for one topic, group or cluster, Topic:abc"
        )
    actions = tuple(word(Action, one) for one in request.actions)
    if not actions or Action.ALL in actions:
        raise IllegalAccessEntry(reason="name the actions that are asked for: Pub, Sub, …")
    return Need(asked.type, asked.name or ANY_NAME, actions)


def _policy(text: str) -> PolicyType:
    return word(PolicyType, text or PolicyType.CUSTOM.value)


def _entry(entry: admin.AclEntry) -> Entry:
    return Entry.of(entry.resource, list(entry.actions), entry.decision, list(entry.source_ips))


def _shown(acl: Acl, resource: str = "") -> admin.Acl:
    policies = []
    for policy in PolicyType:
        entries = [
            _shown_entry(one) for one in acl.entries(policy) if resource in str(one.resource)
        ]
        if entries:
            policies.append(admin.AclPolicy(type=policy.value, entries=entries))
    return admin.Acl(subject=subject_of(acl.username), policies=policies)


def _shown_entry(entry: Entry) -> admin.AclEntry:
    return admin.AclEntry(
        resource=str(entry.resource),
        actions=sorted(one.value for one in entry.actions),
        source_ips=entry.source_ips,
        decision=entry.decision.value,
    )
