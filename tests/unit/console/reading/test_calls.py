"""What fails is told by kind; what was answered is kept for a moment, for who asked alone."""

import asyncio

import grpc
import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.calls import (
    KEPT_MAX,
    SPREAD_MAX,
    CallFailed,
    Failure,
    KeptAnswers,
    each,
    failure_of,
)

REQUEST = admin.ListGroupsRequest()


def failed(code: grpc.StatusCode, text: str = "why") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=text, debug_error_string=""
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, Failure.UNREACHABLE),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Failure.UNREACHABLE),
        (grpc.StatusCode.UNAUTHENTICATED, Failure.NOT_KNOWN),
        (grpc.StatusCode.PERMISSION_DENIED, Failure.DENIED),
        (grpc.StatusCode.NOT_FOUND, Failure.NOT_THERE),
        (grpc.StatusCode.UNIMPLEMENTED, Failure.OLDER),
        (grpc.StatusCode.INVALID_ARGUMENT, Failure.REFUSED),
        (grpc.StatusCode.INTERNAL, Failure.REFUSED),
    ],
)
def test_kinds(code: grpc.StatusCode, kind: Failure) -> None:
    assert failure_of(failed(code), "ListGroups").failure is kind


def test_a_missing_admin_secret_is_no_missing_user() -> None:
    found = failure_of(failed(grpc.StatusCode.UNAUTHENTICATED, "show the admin secret"), "X")
    assert found.failure is Failure.DENIED


class Asked:
    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> int:
        self.times += 1
        return self.times


async def test_an_answer_serves_for_a_moment() -> None:
    answers, asked = KeptAnswers(), Asked()
    assert await answers.ask("", "X", REQUEST, 0, 100, asked) == (0, 1)
    assert await answers.ask("", "X", REQUEST, 99, 100, asked) == (0, 1)
    assert await answers.ask("", "X", REQUEST, 100, 100, asked) == (100, 2)
    answers.forget("")
    assert await answers.ask("", "X", REQUEST, 101, 100, asked) == (101, 3)


async def test_an_answer_is_of_one_user() -> None:
    answers, asked = KeptAnswers(), Asked()
    await answers.ask("alice", "X", REQUEST, 0, 100, asked)
    assert await answers.ask("bob", "X", REQUEST, 0, 100, asked) == (0, 2)
    other = admin.ListTopicsRequest(system=True)
    assert await answers.ask("alice", "X", other, 0, 100, asked) == (0, 3)


async def test_kept_answers_are_bounded() -> None:
    answers, asked = KeptAnswers(), Asked()
    for number in range(KEPT_MAX + 10):
        await answers.ask(f"user{number}", "X", REQUEST, 0, 100, asked)
    assert len(answers._kept) == KEPT_MAX


async def test_few_calls_at_a_time_and_answers_in_order() -> None:
    now = most = 0

    async def one(number: int) -> int:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        now -= 1
        return number * 2

    assert await each(one, range(100)) == [number * 2 for number in range(100)]
    assert most == SPREAD_MAX


async def test_what_failed_first_is_raised_itself() -> None:
    async def one(number: int) -> int:
        if number == 3:
            raise CallFailed(Failure.DENIED, "no")
        return number

    with pytest.raises(CallFailed, match="no"):
        await each(one, range(5))
