"""What clients may take, each by itself and all together."""

from dataclasses import dataclass

from popmq_common.units import KiB, MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Http2Limits:
    streams_first: int = 1_024
    """Of a connection, until half of them have a whole request; then twice as many, and so on."""
    streams_max: int = 16_384  # a client parks one poll per topic and broker
    stream_window_bytes: int = 1 * MiB
    connection_window_bytes: int = 16 * MiB
    frame_bytes_max: int = 256 * KiB
    header_bytes_max: int = 16 * KiB
    idle_frames_max: int = 10_000
    """Frames of a connection that begin nothing, in a second."""
    address_idle_frames_max: int = 50_000
    """The same of all connections of an address, while one has more than its part of them."""
    arriving_max: int = 8_192
    """Requests that are not whole, of all connections."""
    arrival_s: float = 60.0
    """By then a request must be whole."""
    stall_s: float = 30.0
    """An answer of which nothing can leave for so long is given up."""
    first_frame_s: float = 15.0
    ping_every_s: float = 60.0
    ping_answer_s: float = 20.0
