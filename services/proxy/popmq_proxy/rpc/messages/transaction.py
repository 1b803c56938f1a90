"""EndTransaction, and transactions for operators: any proxy settles any of them.

The transaction id tells where the half message lies (`popmq_common/records/transaction_id.py`).
"""

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, BrokerUnreachable, InvalidTransactionId
from popmq_common.records.transaction_id import TransactionId, decode, encode
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.shared.context import CallContext, Upstream

COUNT_DEFAULT = 100
COUNT_MAX = 1_000


class TransactionsHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def end_transaction(
        self, ctx: CallContext, request: service.EndTransactionRequest
    ) -> service.EndTransactionResponse:
        """OK when it is on disk. A producer that does not know yet is asked again later."""
        place = decode(request.transaction_id)
        if request.resolution == v2.TRANSACTION_RESOLUTION_UNSPECIFIED:
            return service.EndTransactionResponse(status=ok("it will be asked about again"))
        commit = request.resolution == v2.COMMIT
        await self._end(ctx, place, topic=ctx.stored(request.topic), commit=commit)
        return service.EndTransactionResponse(status=ok())

    async def unsettled(
        self, ctx: CallContext, request: admin.ListTransactionsRequest
    ) -> admin.ListTransactionsResponse:
        """The oldest of all brokers."""
        if not 0 <= request.count_max <= COUNT_MAX:
            raise BadRequest(reason=f"{request.count_max} transactions, at most {COUNT_MAX}")
        wanted = link.ListTransactions(
            topic=request.topic, count_max=request.count_max or COUNT_DEFAULT
        )
        replies = await self._upstream.on_all_brokers(link.Call(list_transactions=wanted))
        response = admin.ListTransactionsResponse()
        for broker, reply in replies.items():
            found = reply.list_transactions
            response.count += found.count
            response.transactions.extend(_transaction(broker, one) for one in found.transactions)
        response.transactions.sort(key=lambda one: one.stored_ms)
        return response

    async def settle(
        self, ctx: CallContext, request: admin.SettleTransactionRequest
    ) -> admin.SettleTransactionResponse:
        """What its producer should have done."""
        await self._end(ctx, decode(request.transaction_id), topic="", commit=request.commit)
        return admin.SettleTransactionResponse()

    async def _end(
        self, ctx: CallContext, place: TransactionId, *, topic: str, commit: bool
    ) -> None:
        call = link.EndTransaction(
            topic=topic,
            half_offset=place.half_offset,
            log_offset=place.log_offset,
            commit=commit,
        )
        try:
            await self._upstream.call_there(ctx, place.broker, link.Call(end_transaction=call))
        except BrokerUnreachable as gone:
            if self._upstream.routes.knows(place.broker):  # also one that is in a restart
                raise
            reason = f"there is no broker {place.broker}"
            raise InvalidTransactionId(reason=reason) from gone


def _transaction(broker: str, one: link.Unsettled) -> admin.Transaction:
    return admin.Transaction(
        transaction_id=encode(TransactionId(broker, one.half_offset, one.log_offset)),
        broker=broker,
        topic=one.topic,
        checks=one.checks,
        stored_ms=one.stored_ms,
        message_id=one.message_id,
        keys=one.keys,
        tag=one.tag,
        body_bytes=one.body_bytes,
    )
