"""The general request handler of the HTTP/2 front: gRPC as ASGI, one coroutine per RPC.

What is special about our own front:

- It cancels the task of a call whose client is gone, so a waiting poll ends at once.
- `send()` raises when the client is gone, so an answer that could not leave is noticed.
- Several gRPC messages in one body event cost one event: an `Answer` leaves as one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

from google.protobuf.message import DecodeError

from popmq_common.errors import PopMQError, TooManyRequests
from popmq_common.process.logs import Log
from popmq_common.units import KiB
from popmq_proxy.front.client_budgets import Accounts, ClientBudget, ClientBudgets
from popmq_proxy.front.events import (
    END,
    HEADERS,
    START,
    ClientDisconnectedError,
    Event,
    Receive,
    Send,
)
from popmq_proxy.front.grpc_wire import (
    Code,
    GrpcError,
    framed,
    only_message,
    percent_encoded,
)
from popmq_proxy.front.messages import Call, ClientGone, Messages
from popmq_proxy.front.request_head import context_of, head_of, is_grpc
from popmq_proxy.front.rpcs import Rpc, RpcKind, grpc_code
from popmq_proxy.front.time_slices import TimeSlices
from popmq_proxy.front.unary_fast_path import DeclinedRequest, UnaryFastPath
from popmq_proxy.rpc.shared.context import ANSWER_BYTES_MAX

ROOM_WAIT_S: Final = 5.0
"""How long a call that brings messages waits while the answers that nobody reads take all room."""
POLL_BYTES: Final = 1 * KiB
"""A request for messages that is larger counts while it waits."""
ANSWER_BYTES_MIN: Final = 64 * KiB
"""What such a call may bring though there is hardly any room."""


Serve = Callable[[Rpc, Call], Coroutine[Any, Any, None]]


class NoGrpc(Exception):
    """A request of HTTP that is none of gRPC."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


class RequestHandler:
    def __init__(
        self, rpcs: list[Rpc], log: Log, budgets: ClientBudgets, *, request_bytes_max: int
    ) -> None:
        self._log = log
        self.budgets = budgets
        self._request_bytes_max = request_bytes_max
        self._unpacking = TimeSlices()
        serve = {
            RpcKind.UNARY: self._unary,
            RpcKind.ANSWER: self._answer,
            RpcKind.STREAM: self._stream,
            RpcKind.BIDI: self._bidi,
        }
        by_path = {f"/{rpc.service}/{rpc.name}": rpc for rpc in rpcs}
        self._serving = {path: (rpc, serve[rpc.kind]) for path, rpc in by_path.items()}
        self.streaming = frozenset(
            path for path, rpc in by_path.items() if rpc.kind is RpcKind.BIDI
        )
        """Paths of calls that are served while their requests come; their clients wait for the head
        of the response before they send."""
        self.needs_reader = frozenset(
            path
            for path, rpc in by_path.items()
            if rpc.kind in (RpcKind.ANSWER, RpcKind.STREAM) or rpc.brings_messages
        )
        """Paths of calls that need not begin when their client has hung up."""
        fast_path = {path: rpc for path, rpc in by_path.items() if rpc.begin}
        self.fast_path = UnaryFastPath(fast_path, request_bytes_max, budgets.calls)

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        accounts: Accounts = scope["accounts"]
        account = accounts.calls
        budget = self.budgets.calls
        if not budget.admits(account):
            text = f"too many RPCs at a time, the limit is {budget.limit}"
            await _refuse(send, Code.RESOURCE_EXHAUSTED, text)
            return
        budget.take(account)
        path = scope["path"]
        try:
            rpc, serve, call = self._call(scope, receive, send)
            del scope  # long polls have no use for it
            try:
                await serve(rpc, call)
            finally:
                call.hold(0)
        except NoGrpc as other:
            await _not_grpc(other, send)
        except GrpcError as error:
            await _refuse(send, error.code, str(error))
        except PopMQError as error:
            await _refuse(send, grpc_code(error), str(error))
        except DecodeError as error:
            await _refuse(send, Code.INTERNAL, f"the request cannot be read: {error}")
        except (ClientGone, ClientDisconnectedError, asyncio.CancelledError):
            return  # nobody is there to be told; what it held has been given back
        except Exception:
            self._log.exception("rpc.crashed", path=path)
            await _refuse(send, Code.INTERNAL, "internal error")
        finally:
            budget.give(account)

    def _call(self, scope: Event, receive: Receive, send: Send) -> tuple[Rpc, Serve, Call]:
        """Raises `NoGrpc`, `GrpcError`."""
        decoded: DeclinedRequest | None = scope.pop("decoded", None)
        if decoded is not None:  # so the fast path has checked all of this
            rpc, serve = self._serving[scope["path"]]
            call = Call(scope, decoded.context, receive, send, self.budgets.request_buffer)
            call.decoded = decoded.request
            return rpc, serve, call
        headers: dict[bytes, bytes] = scope["named"]
        if scope["method"] != "POST" or not is_grpc(headers):
            raise NoGrpc(405 if scope["method"] != "POST" else 415)
        if headers.get(b"te") != b"trailers":
            text = "te: trailers is missing, without it no status arrives"
            raise GrpcError(Code.INTERNAL, text)
        found = self._serving.get(scope["path"])
        if found is None:
            raise GrpcError(Code.UNIMPLEMENTED, f"there is no method {scope['path']}")
        context = context_of(scope, head_of(scope))
        call = Call(scope, context, receive, send, self.budgets.request_buffer)
        return *found, call

    async def _unary(self, rpc: Rpc, call: Call) -> None:
        message = await self._request(rpc, call)
        request, call.decoded = call.decoded, None
        if request is None:
            request = rpc.decode(message)
        del message
        if rpc.brings_messages:
            await self._until_room(call)
        response = await rpc.handler(call.context, request)
        responses = [response.SerializeToString()]
        del request, response
        await self._reply(call, responses, refusable=rpc.brings_messages)

    async def _answer(self, rpc: Rpc, call: Call) -> None:
        message = await self._request(rpc, call)
        request = rpc.decode(message)
        if len(message) <= POLL_BYTES:
            call.hold(0)  # as nearly all are, and there are only so many calls
        del message
        await self._until_room(call)
        answer = await rpc.handler(call.context, request)
        undo, responses = answer.undo, answer.responses
        del answer
        try:
            await self._reply(call, responses, refusable=True)
        except BaseException:
            await asyncio.shield(undo())
            raise

    async def _stream(self, rpc: Rpc, call: Call) -> None:
        request = rpc.decode(await self._request(rpc, call))
        await _respond(call, rpc.handler(call.context, request))

    async def _bidi(self, rpc: Rpc, call: Call) -> None:
        await _respond(call, rpc.handler(call.context, self._requests(rpc, call)))

    async def _request(self, rpc: Rpc, call: Call) -> bytes:
        """The one message of the request. Raises `GrpcError`, `ClientGone`."""
        event = await call.receive()
        deadline_s = call.context.deadline_s
        if deadline_s is not None and time.monotonic() >= deadline_s:
            raise GrpcError(Code.DEADLINE_EXCEEDED, "the deadline passed before the call came")
        bytes_max = self._bytes_max(rpc)
        if not event.get("more_body"):
            message = only_message(event.get("body", b""))
            if message is not None and len(message) <= bytes_max:
                call.hold(len(message))
                return message
        return await Messages(call, event, bytes_max, self._unpacking).only()

    async def _requests(self, rpc: Rpc, call: Call) -> AsyncIterator[Any]:
        try:
            first, bytes_max = await call.receive(), self._bytes_max(rpc)
            messages = Messages(call, first, bytes_max, self._unpacking)
            while (message := await messages.next()) is not None:
                yield rpc.decode(message)
        except ClientGone:
            return

    def _bytes_max(self, rpc: Rpc) -> int:
        return min(rpc.request_bytes_max, self._request_bytes_max)

    async def _until_room(self, call: Call) -> None:
        """Before messages are asked for: those that nobody reads wait in the broker, not here.
        Raises `TooManyRequests`."""
        unread, account = self.budgets.answer_buffer, call.accounts.answer_buffer
        if not unread.has_room(account) and not await unread.wait(account, ROOM_WAIT_S):
            raise _unread_refused(unread)
        left_bytes = unread.left(account)
        if left_bytes < ANSWER_BYTES_MAX:
            bytes_max = max(left_bytes, ANSWER_BYTES_MIN)
            call.context = call.context._replace(answer_bytes_max=bytes_max)

    async def _reply(self, call: Call, responses: list[bytes], *, refusable: bool) -> None:
        """All there is to say, in one piece. Raises `TooManyRequests` if it is `refusable`, has to
        wait for its client, and there is no room for that."""
        body = [framed(responses)]
        responses.clear()
        if call.whole(START, body[0], END):
            return
        if refusable:
            unread = self.budgets.answer_buffer
            if not unread.fits(call.accounts.answer_buffer, len(body[0])):
                body.clear()  # the error would hold it while it is given back
                raise _unread_refused(unread)
        await call.send(START)
        # Handed over, not kept: what waits to leave is held once.
        await call.send({"type": "http.response.body", "body": body.pop(), "more_body": False})
        await call.send(END)


def _unread_refused(unread: ClientBudget) -> TooManyRequests:
    return TooManyRequests(what="bytes of answers that are not read", limit=unread.limit)


async def _respond(call: Call, responses: Any) -> None:
    """Headers at once, for clients wait for them before all else; then what comes.

    The front holds the headers back until there is a body event, be it empty.
    """
    send = call.send
    await send(START)
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    end = END
    try:
        async for response in responses:
            body = framed([response.SerializeToString()])
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except PopMQError as error:
        end = _trailers(grpc_code(error), str(error))
    except (GrpcError, DecodeError) as error:
        end = _trailers(getattr(error, "code", Code.INTERNAL), str(error))
    finally:
        await responses.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    await send(end)


def _trailers(code: int, text: str) -> Event:
    status = [(b"grpc-status", str(int(code)).encode()), (b"grpc-message", percent_encoded(text))]
    return {"type": "http.response.trailers", "headers": status, "more_trailers": False}


async def _refuse(send: Send, code: int, text: str) -> None:
    """A response of headers alone that are its trailers as well."""
    headers = [*HEADERS, *_trailers(code, text)["headers"]]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _not_grpc(other: NoGrpc, send: Send) -> None:
    text = b"PopMQ speaks gRPC here: apache.rocketmq.v2.\n"
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": other.status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": False})
