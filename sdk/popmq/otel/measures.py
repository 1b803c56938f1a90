"""The metrics of OpenTelemetry's semantic conventions for messaging clients."""

from typing import Final

from opentelemetry.metrics import Meter

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""As the conventions have them."""


class Measures:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        self.operation_s = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of sends, receives and settlements",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self.process_s = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of handlers",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages sent, also those that failed"
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Messages that the application was given",
        )
