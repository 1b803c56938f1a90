"""OpenTelemetry: traces and metrics of a client. Needs the extra: pip install 'popmq[otel]'.

client = Client("127.0.0.1:8081", instrumentation=OpenTelemetry())
app = App("127.0.0.1:8081", instrumentation=OpenTelemetry())

docs/observability.md lists the spans and the metrics.
"""

try:
    from popmq.otel.instrumentation import OpenTelemetry
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("opentelemetry"):
        raise
    text = f"popmq.otel needs {missing.name}, which is not installed: pip install 'popmq[otel]'"
    raise ModuleNotFoundError(text, name=missing.name) from missing

__all__ = ["OpenTelemetry"]
