"""How a broker greets a proxy: with a secret each side proves to the other that it knows it.

The proxy proves first, so who merely connects learns nothing but the broker's name. A proxy of
before the proofs shows the secret itself; it is served, so that brokers can be upgraded first.
"""

import hmac
import secrets

from popmq_common.errors import NotAuthorized
from popmq_common.link.frames import FrameConnection
from popmq_common.link.link_secret import NONCE_BYTES, SecretClaim, proof, proves
from popmq_common.link.wire import failure_of
from popmq_common.process.logs import Log
from popmq_internal.v1 import link_pb2 as link


async def greet(frames: FrameConnection, name: str, secret: bytes, log: Log) -> bool:
    """False: the peer is not served, and has been told so. The caller limits the time.

    Raises `BadRequest`, `OSError`.
    """
    hello = await _hello(frames)
    if hello is None:
        return False
    if hello.nonce:
        answer = await _prove(frames, name, secret, hello.nonce)
    elif hmac.compare_digest(hello.secret.encode(), secret):
        if secret:
            log.warning("link.secret_in_clear", peer=frames.peer, means="upgrade this proxy")
        answer = link.Hello(name=name)
    else:
        answer = None
    if answer is None:
        log.warning("link.refused", peer=frames.peer)
        frames.write(link.Frame(replies=[link.Reply(failure=failure_of(NotAuthorized()))]))
        return False
    frames.write(link.Frame(hello=answer))
    return True


async def _prove(
    frames: FrameConnection, name: str, secret: bytes, nonce: bytes
) -> link.Hello | None:
    """Our proof, after the proxy's. None: there was none, or we cannot have one."""
    if not secret or len(nonce) != NONCE_BYTES:
        return None
    ours = secrets.token_bytes(NONCE_BYTES)
    parts = name.encode(), nonce, ours
    frames.write(link.Frame(hello=link.Hello(name=name, nonce=ours)))
    hello = await _hello(frames)
    if hello is None or not proves(hello.proof, secret, SecretClaim.PROXY, *parts):
        return None
    return link.Hello(name=name, proof=proof(secret, SecretClaim.BROKER, *parts))


async def _hello(frames: FrameConnection) -> link.Hello | None:
    frame = await frames.greeting()
    return frame.hello if frame is not None and frame.HasField("hello") else None
