"""popmq.admin.v1 ShowReplicas and MovePrimary: the replicas of brokers, as their primaries tell.

A broker without replicas is a group of one. A group whose primary does not answer is told as one,
not left out: its other replicas register nowhere, so this proxy knows it from before.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, BrokerNotFound, NoBroker, PopMQError
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.rpc.shared.context import CallContext, Upstream

TIMEOUT_MS: Final = 3_000


class ReplicasHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def show(
        self, ctx: CallContext, request: admin.ShowReplicasRequest
    ) -> admin.ShowReplicasResponse:
        """Who does not answer is told, not raised. Raises `BrokerNotFound`, `NameserverDown`,
        `NoBroker`."""
        infos = await self._expected(request.broker)
        return admin.ShowReplicasResponse(groups=await groups_of(self._upstream, infos))

    async def move(
        self, ctx: CallContext, request: admin.MovePrimaryRequest
    ) -> admin.MovePrimaryResponse:
        """Raises `BrokerNotFound`, `NoSuccessor`, `BadRequest` for a broker without replicas, and
        what else a call to the primary raises."""
        infos = await self._expected(request.broker)
        if not request.broker:
            raise BrokerNotFound(broker="", known=", ".join(info.name for info in infos))
        (group,) = await groups_of(self._upstream, infos)
        if not group.replicated:
            raise BadRequest(reason=f"broker {request.broker} has no replicas")
        move = link.Call(replica_move=link.ReplicaMove(to=request.to))
        await self._upstream.call(request.broker, move, TIMEOUT_MS)
        return admin.MovePrimaryResponse(group=group)

    async def _expected(self, only: str) -> list[ns.BrokerInfo]:
        """All of them, or one. Raises `BrokerNotFound`, `NameserverDown`, `NoBroker`."""
        found = await self._upstream.routes.expected()
        if not found:
            raise NoBroker()
        chosen = [info for info in found if only in ("", info.name)]
        if not chosen:
            raise BrokerNotFound(broker=only, known=", ".join(info.name for info in found))
        return chosen


async def groups_of(upstream: Upstream, infos: Iterable[ns.BrokerInfo]) -> list[admin.ReplicaGroup]:
    return list(await asyncio.gather(*(_group(upstream, info) for info in infos)))


async def _group(upstream: Upstream, info: ns.BrokerInfo) -> admin.ReplicaGroup:
    if not info.replica:
        return _alone(info)
    group = admin.ReplicaGroup(broker=info.name, replicated=True)
    call = link.Call(replica_group=link.ReplicaGroup(of_primary=True))
    try:
        found = (await upstream.call(info.name, call, TIMEOUT_MS)).replica_group
    except PopMQError as failed:
        group.failure = f"no primary answers: {failed}"
        return group
    group.epoch = found.epoch
    group.min_in_sync = found.min_in_sync
    group.log_end, group.commit_point = found.log_end, found.commit_point
    group.forced_epoch = found.forced_epoch
    for one in found.members:
        group.replicas.add(
            name=one.replica,
            role=found.role if one.replica == found.replica else one.role,
            address=one.address,
            behind_bytes=one.behind_bytes,
            behind_ms=one.behind_ms,
            silent_ms=one.silent_ms,
        )
    return group


def _alone(info: ns.BrokerInfo) -> admin.ReplicaGroup:
    alone = admin.Replica(role="primary", address=info.address)
    return admin.ReplicaGroup(broker=info.name, min_in_sync=1, replicas=[alone])
