"""Settings: what the client says, with the server's fields filled in.

Official clients fail in many ways when a field is missing, so all of them are always set: a
producer needs the exponential backoff and a body limit, a consumer a backoff that is not empty, a
poll time in whole seconds and its batch size.

Source: RocketMQ GrpcClientSettingsManager.
"""

from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration

from apache.rocketmq.v2 import definition_pb2 as v2

PRODUCER_ATTEMPTS = 3
RECEIVE_BATCH = 32
BACKOFF_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    fifo: bool = False
    max_attempts: int = 16


def _exponential(max_attempts: int) -> v2.RetryPolicy:
    """For the Node client, which knows no other: without a policy its FIFO consumer sends a
    message to the dead letters when it fails for the first time (seen with 1.0.8)."""
    backoff = v2.ExponentialBackoff(
        initial=Duration(seconds=BACKOFF_S[0]), max=Duration(seconds=BACKOFF_S[-1]), multiplier=2
    )
    return v2.RetryPolicy(max_attempts=max_attempts, exponential_backoff=backoff)


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
    if asked.user_agent.language == v2.NODE_JS and group.fifo:
        settings.backoff_policy.CopyFrom(_exponential(group.max_attempts))
        return settings
    steps = [Duration(seconds=step) for step in BACKOFF_S]
    settings.backoff_policy.CopyFrom(
        v2.RetryPolicy(
            max_attempts=group.max_attempts, customized_backoff=v2.CustomizedBackoff(next=steps)
        )
    )
    return settings
