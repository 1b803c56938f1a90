"""The Envoy front's application: gRPC as ASGI, one coroutine per RPC.

pyvoy runs it inside Envoy. What is special about it (pyvoy 1.3, seen in tests):

- `receive()` waits for request data; once the request has ended it answers at once, with an empty
  `http.request` while the client is there and `http.disconnect` when it is gone. So a waiting poll
  cannot await the client's going: `Vigil` asks now and then.
- `send()` raises when the client is gone, so an answer that could not leave is noticed.
- Several gRPC messages in one body event cost one event: an `Answer` leaves as one.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf.message import DecodeError

from popmq_common.errors import PopMQError
from popmq_common.logs import Log
from popmq_proxy.front.direct import DirectCalls, Room
from popmq_proxy.front.events import END, HEADERS, START, Event, Receive, Send, SendWhole
from popmq_proxy.front.grpc_wire import (
    Code,
    GrpcError,
    MessageReader,
    framed,
    only_message,
    percent_encoded,
)
from popmq_proxy.front.request_head import context_of, is_grpc
from popmq_proxy.front.rpcs import Kind, Rpc, grpc_code
from popmq_proxy.front.vigil import Vigil
from popmq_proxy.rpc.context import CallContext


class ClientGone(Exception):
    """The client went before its request was whole."""


class GrpcApp:
    def __init__(
        self,
        rpcs: list[Rpc],
        log: Log,
        *,
        rpcs_max: int,
        request_bytes_max: int,
        received_bytes_max: int,
    ) -> None:
        """`received_bytes_max` bounds what is held of all unfinished requests together."""
        self._log = log
        self.room = Room(rpcs_max)
        self._request_bytes_max = request_bytes_max
        self._received_bytes_max = received_bytes_max
        self.received_bytes = 0
        """Held of requests that are not whole yet."""
        self._vigil = Vigil()
        serve = {
            Kind.UNARY: self._unary,
            Kind.ANSWER: self._answer,
            Kind.STREAM: self._stream,
            Kind.BIDI: self._bidi,
        }
        self._serving = {f"/{rpc.service}/{rpc.name}": (rpc, serve[rpc.kind]) for rpc in rpcs}
        direct = {path: rpc for path, (rpc, _) in self._serving.items() if rpc.begin}
        self.direct = DirectCalls(direct, request_bytes_max, self.room)

    async def watch_clients(self) -> None:
        """End waiting polls whose clients are gone, for ever."""
        await self._vigil.run()

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if self.room.is_full():
            text = f"too many RPCs at a time, the limit is {self.room.limit}"
            await _refuse(send, Code.RESOURCE_EXHAUSTED, text)
            return
        self.room.taken += 1
        try:
            headers = dict(scope["headers"])
            if scope["method"] != "POST" or not is_grpc(headers):
                await _not_grpc(scope["method"], send)
                return
            if headers.get(b"te") != b"trailers":
                raise GrpcError(
                    Code.INTERNAL, "te: trailers is missing, without it no status arrives"
                )
            found = self._serving.get(scope["path"])
            if found is None:
                text = f"there is no method {scope['path']}"
                raise GrpcError(Code.UNIMPLEMENTED, text)
            rpc, serve = found
            await serve(rpc, context_of(scope, headers), receive, send)
        except GrpcError as error:
            await _refuse(send, error.code, str(error))
        except PopMQError as error:
            await _refuse(send, grpc_code(error), str(error))
        except DecodeError as error:
            await _refuse(send, Code.INTERNAL, f"the request cannot be read: {error}")
        except (ClientGone, asyncio.CancelledError):
            return  # nobody is there to be told; what it held has been given back
        except Exception as error:
            if type(error).__name__ == "ClientDisconnectedError":  # pyvoy's, it has no public name
                return
            self._log.exception("rpc.crashed", path=scope["path"])
            await _refuse(send, Code.INTERNAL, "internal error")
        finally:
            self.room.taken -= 1

    async def _unary(self, rpc: Rpc, ctx: CallContext, receive: Receive, send: Send) -> None:
        request = rpc.decode(await self._request(ctx, receive))
        response = await rpc.handler(ctx, request)
        await _reply(send, [response.SerializeToString()])

    async def _answer(self, rpc: Rpc, ctx: CallContext, receive: Receive, send: Send) -> None:
        request = rpc.decode(await self._request(ctx, receive))
        with self._vigil.over(receive):
            answer = await rpc.handler(ctx, request)
        try:
            await _reply(send, answer.responses)
        except BaseException:
            await asyncio.shield(answer.undo())
            raise

    async def _stream(self, rpc: Rpc, ctx: CallContext, receive: Receive, send: Send) -> None:
        request = rpc.decode(await self._request(ctx, receive))
        with self._vigil.over(receive):
            await self._respond(rpc.handler(ctx, request), send)

    async def _bidi(self, rpc: Rpc, ctx: CallContext, receive: Receive, send: Send) -> None:
        await self._respond(rpc.handler(ctx, self._requests(rpc, ctx, receive)), send)

    async def _respond(self, responses: Any, send: Send) -> None:
        """Headers at once, for clients wait for them before all else; then what comes.

        pyvoy holds the headers back until there is a body event, be it empty.
        """
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

    async def _request(self, ctx: CallContext, receive: Receive) -> bytes:
        """The one message of the request. Raises `GrpcError`, `ClientGone`."""
        event = await receive()
        if ctx.deadline_s is not None and time.monotonic() >= ctx.deadline_s:
            raise GrpcError(Code.DEADLINE_EXCEEDED, "the deadline passed before the call came")
        if not event.get("more_body"):
            message = only_message(event.get("body", b""))
            if message is not None and len(message) <= self._request_bytes_max:
                return message
        messages = [message async for message in self._messages(ctx, receive, event)]
        if len(messages) != 1:
            raise GrpcError(Code.INTERNAL, f"{len(messages)} messages in a call that takes one")
        return messages[0]

    async def _requests(self, rpc: Rpc, ctx: CallContext, receive: Receive) -> AsyncIterator[Any]:
        try:
            async for message in self._messages(ctx, receive, await receive()):
                yield rpc.decode(message)
        except ClientGone:
            return

    async def _messages(
        self, ctx: CallContext, receive: Receive, event: Event
    ) -> AsyncIterator[bytes]:
        """Messages of a request, from its first event on; bounded by what all may hold."""
        encoding = ctx.metadata.get("grpc-encoding", "")
        reader = MessageReader(self._request_bytes_max, encoding)
        counted = 0
        try:
            while True:
                if event["type"] == "http.disconnect":
                    raise ClientGone()
                for message in reader.feed(event.get("body", b"")):
                    yield message
                self.received_bytes += reader.held_bytes - counted
                counted = reader.held_bytes
                if self.received_bytes > self._received_bytes_max:
                    limit = self._received_bytes_max
                    text = f"unfinished requests hold more than {limit} bytes"
                    raise GrpcError(Code.RESOURCE_EXHAUSTED, text)
                if not event.get("more_body"):
                    reader.end()
                    return
                event = await receive()
        finally:
            self.received_bytes -= counted


def _trailers(code: int, text: str) -> Event:
    status = [(b"grpc-status", str(int(code)).encode()), (b"grpc-message", percent_encoded(text))]
    return {"type": "http.response.trailers", "headers": status, "more_trailers": False}


async def _reply(send: Send, messages: list[bytes]) -> None:
    """All there is to say, in one piece."""
    body = framed(messages)
    whole: SendWhole | None = getattr(send, "whole", None)
    if whole is not None and whole(START, body, END):
        return
    await send(START)
    await send({"type": "http.response.body", "body": body, "more_body": False})
    await send(END)


async def _refuse(send: Send, code: int, text: str) -> None:
    """A response of headers alone that are its trailers as well."""
    headers = [*HEADERS, *_trailers(code, text)["headers"]]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _not_grpc(method: str, send: Send) -> None:
    text = b"PopMQ speaks gRPC here: apache.rocketmq.v2.\n"
    status = 405 if method != "POST" else 415
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": False})
