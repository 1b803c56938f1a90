"""How long keys are remembered, against how long a duplicate may still come."""

RETRIES_S = 17_140.0
"""From the first to the sixteenth redelivery by RocketMQ's table: 10 s, 30 s, 1 min … 2 h."""
WINDOW_S = 72 * 3600.0
"""RocketMQ keeps messages for 48 hours; with their retries that is less than three days."""


def too_short(window_s: float, retention_s: float | None, retries_s: float) -> str | None:
    """What is wrong, with the numbers; None when nothing is, or retention is not known."""
    if retention_s is None or window_s >= retention_s + retries_s:
        return None
    return (
        f"keys are remembered for {_hours(window_s)}, but a message may be redelivered for "
        f"{_hours(retention_s + retries_s)} ({_hours(retention_s)} of retention and "
        f"{_hours(retries_s)} of retries): duplicates later than that are not recognized. "
        "Make the window longer or the retention shorter"
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 360 else f"{seconds:g} s"
