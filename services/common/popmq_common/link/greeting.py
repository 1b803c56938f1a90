"""How a proxy or a replica greets a broker: with a secret each proves that it knows it.

Whatever answers at a broker's address gets no call, and never the secret, before it has proved.
"""

import secrets

from popmq_common.errors import BrokerUnreachable, PopMQError
from popmq_common.link.frames import FrameConnection
from popmq_common.link.link_secret import NONCE_BYTES, SecretClaim, proof, proves
from popmq_common.link.wire import error_of
from popmq_internal.v1 import link_pb2 as link


async def greet(frames: FrameConnection, broker: str, secret: bytes, tls_settings: str) -> None:
    """The caller limits the time. `tls_settings`: how the variables begin that turn TLS on, for
    who reads an error. Raises `BrokerUnreachable`, `OSError`, and what the broker
    refuses with."""
    nonce = secrets.token_bytes(NONCE_BYTES) if secret else b""
    hello = await _ask(frames, broker, link.Hello(nonce=nonce), tls_settings)
    if not secret:
        return
    if not hello.nonce:
        reason = "it has no link secret, or is of a version that cannot prove it; upgrade it first"
        raise BrokerUnreachable(broker=broker, reason=reason)
    parts = broker.encode(), nonce, hello.nonce
    shown = link.Hello(proof=proof(secret, SecretClaim.PROXY, *parts))
    hello = await _ask(frames, broker, shown, tls_settings)
    if not proves(hello.proof, secret, SecretClaim.BROKER, *parts):
        reason = "what answers at its address does not know the link's secret"
        raise BrokerUnreachable(broker=broker, reason=reason)


async def _ask(
    frames: FrameConnection, broker: str, said: link.Hello, tls_settings: str
) -> link.Hello:
    """What it says to that, under the right name."""
    frames.write(link.Frame(hello=said))
    try:
        frame = await frames.greeting()
    except PopMQError as wrong:
        raise BrokerUnreachable(broker=broker, reason=str(wrong)) from wrong
    if frame is None or not frame.HasField("hello"):
        if frame is not None and frame.replies:
            raise error_of(frame.replies[0].failure)
        raise BrokerUnreachable(broker=broker, reason=_why_closed(frames, tls_settings))
    if frame.hello.name != broker:
        reason = f"{frame.hello.name} answers at its address"
        raise BrokerUnreachable(broker=broker, reason=reason)
    return frame.hello


def _why_closed(frames: FrameConnection, tls_settings: str) -> str:
    """A broker that refuses a certificate says so in its own log alone."""
    closed = "it closed the connection"
    if frames.transport.get_extra_info("ssl_object") is None:
        return f"{closed}; if it speaks TLS, set {tls_settings}_CA"
    return (
        f"{closed}; if its log says tls.refused, it wants another certificate ({tls_settings}_CERT)"
    )
