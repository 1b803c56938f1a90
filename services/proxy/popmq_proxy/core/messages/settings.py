"""Settings: what the client says, with the server's fields filled in.

Official clients fail in many ways when a field is missing, so all of them are always set: a
producer needs the exponential backoff and a body limit, a consumer a backoff that is not empty, a
poll time in whole seconds and its batch size.

Source: RocketMQ GrpcClientSettingsManager.
"""

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.records.retry_delays import TABLE_MS
from popmq_internal.v1 import link_pb2 as link

PRODUCER_ATTEMPTS = 3
RECEIVE_BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    fifo: bool = False
    max_attempts: int = 16
    retry_policy: link.RetryPolicy | None = None
    """None: RocketMQ's table."""


def merge(
    asked: v2.Settings, *, group: GroupSettings, body_bytes_max: int, poll_ms_max: int
) -> v2.Settings:
    """A copy of `asked` with everything the server decides."""
    settings = v2.Settings()
    settings.CopyFrom(asked)
    settings.metric.CopyFrom(v2.Metric(on=False))
    if asked.WhichOneof("pub_sub") == "publishing":
        settings.publishing.max_body_size = body_bytes_max
        settings.publishing.validate_message_type = True
        settings.backoff_policy.CopyFrom(
            v2.RetryPolicy(
                max_attempts=PRODUCER_ATTEMPTS,
                exponential_backoff=v2.ExponentialBackoff(
                    initial=Duration(nanos=10_000_000), max=Duration(seconds=1), multiplier=2
                ),
            )
        )
        return settings
    subscription = settings.subscription
    subscription.fifo = group.fifo
    subscription.receive_batch_size = RECEIVE_BATCH
    subscription.long_polling_timeout.FromSeconds(max(1, poll_ms_max // 1000))
    knows_steps = not (asked.user_agent.language == v2.NODE_JS and group.fifo)
    settings.backoff_policy.CopyFrom(_backoff(group, knows_steps=knows_steps))
    return settings


def _backoff(group: GroupSettings, *, knows_steps: bool) -> v2.RetryPolicy:
    """The group's policy. The Node client knows no steps: without a policy its FIFO consumer sends
    a message to the dead letters when it fails for the first time (seen with 1.0.8). It is told
    to double from the first to the last."""
    policy = group.retry_policy or link.RetryPolicy(delays_ms=TABLE_MS)
    if policy.delays_ms and knows_steps:
        steps = v2.CustomizedBackoff(next=[_duration(step) for step in policy.delays_ms])
        return v2.RetryPolicy(max_attempts=group.max_attempts, customized_backoff=steps)
    growth = v2.ExponentialBackoff(
        initial=_duration(policy.delays_ms[0] if policy.delays_ms else policy.initial_ms),
        max=_duration(policy.delays_ms[-1] if policy.delays_ms else policy.max_ms),
        multiplier=2 if policy.delays_ms else policy.multiplier,
    )
    return v2.RetryPolicy(max_attempts=group.max_attempts, exponential_backoff=growth)


def _duration(ms: int) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(ms)
    return duration
