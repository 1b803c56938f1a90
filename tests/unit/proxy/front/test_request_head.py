"""What a request's headers say is found once for all that are written alike."""

from typing import Any

import pytest

from popmq_proxy.front.request_head import context_of, head_of

HEADERS = {
    b"content-type": b"application/grpc",
    b"te": b"trailers",
    b"x-mq-client-id": b"me@1",
    b"x-mq-namespace": b"shop",
}


def scope(headers: dict[bytes, bytes], **others: Any) -> dict[str, Any]:
    return {"method": "POST", "named": headers, "peer": "192.0.2.7:1", **others}


def test_the_second_of_two_alike_gets_what_the_first_has_found() -> None:
    remembered: list[Any] = []
    first = head_of(scope(HEADERS, remembered=remembered))
    assert head_of(scope(HEADERS, remembered=remembered)) is first
    assert context_of(scope(HEADERS), first).client_id == "me@1"


def test_of_another_block_of_headers_nothing_is_taken() -> None:
    mine, theirs = (
        head_of(scope({**HEADERS, b"x-mq-client-id": name}, remembered=[]))
        for name in (b"me@1", b"you@2")
    )
    assert (mine.metadata["x-mq-client-id"], theirs.metadata["x-mq-client-id"]) == ("me@1", "you@2")


def test_time_out_and_signature_are_each_requests_own() -> None:
    remembered: list[Any] = []
    head = head_of(scope(HEADERS, remembered=remembered))
    first = context_of(scope(HEADERS, timeout=b"1S", signature=(b"a", b"b")), head)
    second = context_of(scope(HEADERS, timeout=b"2S", signature=None), head)
    assert first.deadline_s is not None
    assert second.deadline_s is not None
    assert 0.5 < second.deadline_s - first.deadline_s < 1.5
    assert (first.signature, second.signature) == ((b"a", b"b"), None)
    assert (second.user, second.connection, second.certificate_user) == ("", None, "")


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", HEADERS),
        ("POST", {**HEADERS, b"te": b"deflate"}),
        ("POST", {**HEADERS, b"content-type": b"text/html"}),
    ],
)
def test_what_is_no_call_is_not_taken_for_one(method: str, headers: dict[bytes, bytes]) -> None:
    assert not head_of({**scope(headers), "method": method}).is_call


def test_an_operators_secret_is_the_requests_that_brought_it() -> None:
    head = head_of(scope({**HEADERS, b"x-popmq-admin-secret": b"s3cret"}))
    assert head.metadata["x-popmq-admin-secret"] == "s3cret"
    assert "x-popmq-admin-secret" not in head_of(scope(HEADERS)).metadata
