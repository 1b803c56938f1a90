"""How long a client remembers that its servers do not know a call."""

import grpc
import pytest

from popmq.connection.unknown_calls import TRIED_AGAIN_S, UnknownCalls, is_unknown
from popmq.errors import PopMQClientError, ServerUnreachable


def failed(code: grpc.StatusCode) -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing, "", "")


def test_a_call_is_tried_again_after_a_while_in_case_the_server_was_upgraded() -> None:
    now_s = 7.0
    calls = UnknownCalls(lambda: now_s)
    assert "AckRuns" not in calls
    calls.add("AckRuns")
    now_s += TRIED_AGAIN_S - 1
    assert "AckRuns" in calls
    assert "NackRuns" not in calls
    now_s += 1
    assert "AckRuns" not in calls
    calls.add("AckRuns")
    assert "AckRuns" in calls


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE])
def test_only_a_server_that_says_so_does_not_know_a_call(code: grpc.StatusCode) -> None:
    told = failed(code)
    unreachable = ServerUnreachable("no answer")
    unreachable.__cause__ = told
    is_unimplemented = code is grpc.StatusCode.UNIMPLEMENTED
    assert is_unknown(told) is is_unknown(unreachable) is is_unimplemented


def test_a_failure_that_is_no_answer_says_nothing_of_the_call() -> None:
    refused = PopMQClientError("refused")
    refused.__cause__ = failed(grpc.StatusCode.UNIMPLEMENTED)
    assert not is_unknown(refused)
    assert not is_unknown(ServerUnreachable("no cause"))
