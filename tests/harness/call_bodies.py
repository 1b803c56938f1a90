"""Bodies of calls to a broker, about the one topic and group of `harness.broker`."""

from collections.abc import Sequence
from typing import Any

from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link


def recall_body(body: str, due_ms: int) -> dict[str, Any]:
    return {"recall": link.Recall(topic=TOPIC, message_id=f"id-{body}", due_ms=due_ms)}


def pop_body(
    count: int,
    invisible_ms: int,
    expression: str = "",
    attempt_id: str = "",
    sql: str = "",
    renewed_by: str = "",
) -> dict[str, Any]:
    kind = link.FILTER_KIND_TAG if expression else link.FILTER_KIND_ALL
    return {
        "pop": link.Pop(
            group=GROUP,
            topic=TOPIC,
            batch_size=count,
            invisible_ms=invisible_ms,
            filter_kind=link.FILTER_KIND_SQL if sql else kind,
            filter_expression=sql or expression,
            attempt_id=attempt_id,
            client_id=renewed_by,
            auto_renew=bool(renewed_by),
        )
    }


def end_body(half: tuple[int, int], *, commit: bool) -> dict[str, Any]:
    offset, log_offset = half
    request = link.EndTransaction(
        topic=TOPIC, half_offset=offset, log_offset=log_offset, commit=commit
    )
    return {"end_transaction": request}


def nack_body(
    handles: Sequence[str], kind: int, delay_ms: int = -1, reason: str = ""
) -> dict[str, Any]:
    return {
        "nack": link.Nack(
            group=GROUP,
            topic=TOPIC,
            handles=handles,
            kind=link.NackKind.ValueType(kind),
            delay_ms=delay_ms,
            reason=reason,
        )
    }
