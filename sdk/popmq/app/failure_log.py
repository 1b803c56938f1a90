"""What is logged of a handler that failed: why, and what becomes of its message."""

import logging

from popmq._core.group_policy import GroupPolicy
from popmq.app.subscription import Subscription
from popmq.log_fields import fields
from popmq.message import ReceivedMessage
from popmq.outcome import Reject, Retry

log = logging.getLogger("popmq.app.handling")


def log_failure(
    how: Subscription, policy: GroupPolicy, message: ReceivedMessage, failed: Exception
) -> None:
    """Called where `failed` is handled, so that its traceback is told too."""
    delay_s, is_dead = _next(how, policy, message, failed)
    if is_dead:
        becomes = "dead letter"
    elif delay_s is None:
        becomes = "it is redelivered"
    else:
        becomes = f"next delivery in {delay_s:g} s"
    text = "%s failed on message %s of %s, attempt %d: %s: %s; %s"
    name, attempt = type(failed).__name__, message.delivery_attempt
    said = how.name, message.message_id, message.topic, attempt, name, failed, becomes
    more = fields(message, failed)
    more |= {"dead_letter": True} if is_dead else {"next_delay_s": delay_s}
    is_meant = isinstance(failed, Retry | Reject)
    level = logging.INFO if isinstance(failed, Retry) and not is_dead else logging.ERROR
    log.log(level, text, *said, extra=more, exc_info=None if is_meant else failed)


def _next(
    how: Subscription, policy: GroupPolicy, message: ReceivedMessage, failed: Exception
) -> tuple[float | None, bool]:
    """Seconds until its next delivery, None if they are unknown; whether there is none."""
    attempt = message.delivery_attempt
    is_counted = not isinstance(failed, Retry) or failed.counted
    if isinstance(failed, Reject) or (is_counted and policy.is_last(attempt)):
        return None, True
    if isinstance(failed, Retry) and failed.delay_s is not None:
        return failed.delay_s, False
    delay_s = how.delay_s(attempt)
    return policy.delay_s(attempt) if delay_s is None else delay_s, False
