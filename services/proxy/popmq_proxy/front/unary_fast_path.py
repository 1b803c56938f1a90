"""Unary RPCs that need no task: begun when their request is whole, answered when a broker replies.

A task, a future to wait on, and seven coroutines on the way there cost a send some 10 µs, a third
of what it costs. So our own HTTP/2 front asks here first, with a request that is whole. Whatever
is not as usual (a route not known yet, a refused request, a client that does not read) goes to the
general handler and its coroutines, which also tells what is wrong. It goes on from where this has
got: a request that was decoded here is not decoded again.
"""

import time
from collections.abc import Container
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from popmq_common.errors import PopMQError
from popmq_proxy.front.client_budgets import Account, Accounts, ClientBudget
from popmq_proxy.front.events import Event
from popmq_proxy.front.grpc_wire import GrpcError, only_message
from popmq_proxy.front.request_head import context_of, head_of
from popmq_proxy.front.rpcs import Rpc
from popmq_proxy.rpc.shared.context import CallContext


class Caller(Protocol):
    """Where an answer goes."""

    closed: bool
    """Nobody wants one any more."""

    @property
    def accounts(self) -> Accounts:
        """The client's."""
        ...

    def answer(self, response: bytes) -> None:
        """One message and the status OK."""
        ...

    def begin_task(self) -> None:
        """The general handler. What it gets in the scope as `decoded` need not be read again."""
        ...


class FastPath(Protocol):
    """What an application has as its attribute `direct`, if it can do without tasks."""

    @property
    def rpcs(self) -> Container[str]:
        """Paths."""
        ...

    def begin(self, scope: Event, body: bytes, caller: Caller) -> bool:
        """False: nothing was sent, call the application."""
        ...


class DeclinedRequest(NamedTuple):
    """How far a request has got that this declines."""

    context: CallContext
    request: Any
    """The request, or what its handler has made of it."""


class FastCall:
    """One RPC under way."""

    __slots__ = (
        "_account",
        "_began_s",
        "_begin",
        "_budget",
        "_caller",
        "_context",
        "_scope",
        "_stats",
    )

    def __init__(self, rpc: Rpc, caller: Caller, budget: ClientBudget, account: Account) -> None:
        """It counts in the budget, until it is over or goes to the general handler."""
        assert rpc.begin is not None
        assert rpc.stats is not None
        self._begin = rpc.begin
        self._stats = rpc.stats
        self._caller = caller
        self._budget = budget
        self._account = account
        self._began_s = 0.0

    def begin(self, scope: Event, context: CallContext, request: Any) -> bool:
        self._began_s = self._stats.begin()
        self._scope, self._context = scope, context
        declined = self._begin(context, request, self._on_reply)
        if declined is None:
            return True
        self._stats.undo()
        scope["decoded"] = DeclinedRequest(context, declined)
        return False

    def _on_reply(self, response: Any, declined: Any) -> None:
        self._budget.give(self._account)
        caller = self._caller
        if response is None:
            self._stats.undo()
            if not caller.closed:
                self._scope["decoded"] = DeclinedRequest(self._context, declined)
                caller.begin_task()
            return
        if caller.closed:
            self._stats.end(self._began_s, None)
            return
        self._stats.end(self._began_s, response.status.code)
        caller.answer(response.SerializeToString())


class UnaryFastPath:
    def __init__(self, rpcs: dict[str, Rpc], request_bytes_max: int, budget: ClientBudget) -> None:
        """`rpcs` by path."""
        self.rpcs = rpcs
        self._request_bytes_max = request_bytes_max
        self._budget = budget

    def begin(self, scope: Event, body: bytes, caller: Caller) -> bool:
        """A request that is whole. False: nothing was sent, the general handler is to serve it."""
        rpc = self.rpcs.get(scope["path"])
        message = only_message(body)
        if rpc is None or message is None or len(message) > self._request_bytes_max:
            return False
        head = head_of(scope)
        if not head.is_call:
            return False
        budget, account = self._budget, caller.accounts.calls
        try:
            context = context_of(scope, head)
            late = context.deadline_s is not None and time.monotonic() >= context.deadline_s
            if late or not context.client_id or not budget.admits(account):
                return False
            request = rpc.decode(message)
        except (GrpcError, PopMQError, DecodeError):
            return False  # told by the general handler
        budget.take(account)
        if FastCall(rpc, caller, budget, account).begin(scope, context, request):
            return True
        budget.give(account)
        return False
