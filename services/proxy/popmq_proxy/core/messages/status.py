"""Our errors → codes of apache.rocketmq.v2: the only table."""

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common import errors as e
from popmq_common.link.wire import UnknownFailure

CODES: dict[type[e.PopMQError], "v2.Code.ValueType"] = {
    e.PopMQError: v2.INTERNAL_SERVER_ERROR,
    e.BadRequest: v2.BAD_REQUEST,
    e.NotFound: v2.NOT_FOUND,
    e.Refused: v2.PRECONDITION_FAILED,
    e.Unavailable: v2.PROXY_TIMEOUT,
    e.StorageFault: v2.INTERNAL_SERVER_ERROR,
    e.IllegalTopic: v2.ILLEGAL_TOPIC,
    e.IllegalGroup: v2.ILLEGAL_CONSUMER_GROUP,
    e.IllegalOwner: v2.BAD_REQUEST,
    e.IllegalTag: v2.ILLEGAL_MESSAGE_TAG,
    e.IllegalKey: v2.ILLEGAL_MESSAGE_KEY,
    e.IllegalMessageGroup: v2.ILLEGAL_MESSAGE_GROUP,
    e.IllegalProperty: v2.ILLEGAL_MESSAGE_PROPERTY_KEY,
    e.IllegalMessageId: v2.ILLEGAL_MESSAGE_ID,
    e.IllegalDeliveryTime: v2.ILLEGAL_DELIVERY_TIME,
    e.IllegalFilter: v2.ILLEGAL_FILTER_EXPRESSION,
    e.IllegalInvisibleTime: v2.ILLEGAL_INVISIBLE_TIME,
    e.IllegalPollingTime: v2.ILLEGAL_POLLING_TIME,
    e.IllegalOffset: v2.ILLEGAL_OFFSET,
    e.IllegalQueueCount: v2.BAD_REQUEST,
    e.InvalidReceiptHandle: v2.INVALID_RECEIPT_HANDLE,
    e.InvalidRecallHandle: v2.BAD_REQUEST,
    e.RecallTooLate: v2.BAD_REQUEST,
    e.InvalidTransactionId: v2.INVALID_TRANSACTION_ID,
    e.IllegalRecoveryTime: v2.BAD_REQUEST,
    e.MessageTypeConflict: v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    e.MessagesCorrupted: v2.MESSAGE_CORRUPTED,
    e.MessageBodyEmpty: v2.MESSAGE_BODY_EMPTY,
    e.MessageTooLarge: v2.MESSAGE_BODY_TOO_LARGE,
    e.PropertiesTooLarge: v2.MESSAGE_PROPERTIES_TOO_LARGE,
    e.ClientIdRequired: v2.CLIENT_ID_REQUIRED,
    e.NotServed: v2.NOT_IMPLEMENTED,
    e.TopicNotFound: v2.TOPIC_NOT_FOUND,
    e.GroupNotFound: v2.CONSUMER_GROUP_NOT_FOUND,
    e.NothingToRecall: v2.MESSAGE_NOT_FOUND,
    e.OffsetNotFound: v2.OFFSET_NOT_FOUND,
    e.BrokerNotFound: v2.NOT_FOUND,
    e.ServiceNotFound: v2.NOT_FOUND,
    e.IllegalUser: v2.BAD_REQUEST,
    e.IllegalAccessEntry: v2.BAD_REQUEST,
    e.UserNotFound: v2.NOT_FOUND,
    e.NothingThere: v2.NOT_FOUND,
    e.CredentialsRefused: v2.UNAUTHORIZED,
    e.AccessDenied: v2.UNAUTHORIZED,
    e.AccessNotKnown: v2.PROXY_TIMEOUT,
    e.LimitReached: v2.TOO_MANY_REQUESTS,
    e.FirstUseLimit: v2.TOO_MANY_REQUESTS,
    e.NoSuccessor: v2.PRECONDITION_FAILED,
    e.NotForced: v2.PRECONDITION_FAILED,
    e.AccessChanged: v2.PRECONDITION_FAILED,
    e.UserExists: v2.PRECONDITION_FAILED,
    e.AclEntryExists: v2.PRECONDITION_FAILED,
    e.LastSuperUser: v2.PRECONDITION_FAILED,
    e.TopicExists: v2.PRECONDITION_FAILED,
    e.GroupExists: v2.PRECONDITION_FAILED,
    e.OwnedByOther: v2.PRECONDITION_FAILED,
    e.StartNotFixed: v2.PRECONDITION_FAILED,
    e.HeldByReceives: v2.PRECONDITION_FAILED,
    e.ResetMeanwhile: v2.ILLEGAL_OFFSET,
    e.AdminSecretMissing: v2.UNAUTHORIZED,
    e.AdminSecretWrong: v2.FORBIDDEN,
    e.TooManyInFlight: v2.TOO_MANY_REQUESTS,
    e.TooManyRequests: v2.TOO_MANY_REQUESTS,
    e.AlreadySettled: v2.PRECONDITION_FAILED,
    e.TooManyTransactions: v2.TOO_MANY_REQUESTS,
    e.NoPermission: v2.FORBIDDEN,
    e.TooMuchDamage: v2.PRECONDITION_FAILED,
    e.RebuildRunning: v2.PRECONDITION_FAILED,
    e.NotAuthorized: v2.UNAUTHORIZED,
    e.ExportsNothing: v2.PRECONDITION_FAILED,
    e.ExportRunning: v2.PRECONDITION_FAILED,
    e.NoIndex: v2.PRECONDITION_FAILED,
    e.IndexBehind: v2.TOO_MANY_REQUESTS,
    e.IndexDamaged: v2.TOO_MANY_REQUESTS,
    e.DiskFull: v2.TOO_MANY_REQUESTS,
    e.NoBroker: v2.PROXY_TIMEOUT,
    e.BrokerDown: v2.PROXY_TIMEOUT,
    e.NameserverDown: v2.PROXY_TIMEOUT,
    e.RegisterUnreachable: v2.PROXY_TIMEOUT,
    e.RegisterRecordUnreadable: v2.PROXY_TIMEOUT,
    e.NotPrimary: v2.PROXY_TIMEOUT,
    e.StaleEpoch: v2.PROXY_TIMEOUT,
    e.ReplicaDiverged: v2.INTERNAL_SERVER_ERROR,
    e.ReplicaOfOther: v2.INTERNAL_SERVER_ERROR,
    e.AckBeyondLog: v2.INTERNAL_SERVER_ERROR,
    e.BrokerSilent: v2.PROXY_TIMEOUT,
    e.BrokerUnreachable: v2.PROXY_TIMEOUT,
    e.DeadlinePassed: v2.PROXY_TIMEOUT,
    e.Corrupt: v2.INTERNAL_SERVER_ERROR,
    e.DirectoryInUse: v2.INTERNAL_SERVER_ERROR,
    e.DirectoryNotWritable: v2.INTERNAL_SERVER_ERROR,
    e.StoreClosed: v2.PROXY_TIMEOUT,
    UnknownFailure: v2.INTERNAL_SERVER_ERROR,
}


def ok(message: str = "OK") -> v2.Status:
    return v2.Status(code=v2.OK, message=message)


OK = ok()
"""To be copied into responses, never changed."""


def status_of(error: BaseException) -> v2.Status:
    """The status a client gets; an error of ours says what to do, a bug only that it is one."""
    if isinstance(error, e.PopMQError):
        return v2.Status(code=CODES[type(error)], message=str(error))
    text = f"internal error: {type(error).__name__}"
    return v2.Status(code=v2.INTERNAL_SERVER_ERROR, message=text)


def common(statuses: list[v2.Status]) -> v2.Status:
    """The status of a whole request: its entries' when they agree, else MULTIPLE_RESULTS.

    Its text begins with the name of the code, as RocketMQ's does; behind it is the first entry's.
    """
    first = statuses[0]
    if statuses.count(OK) == len(statuses):
        return OK
    if all(status is first or status.code == first.code for status in statuses):
        return first if first.code == v2.OK else _named(first.code, first.message)
    return _named(v2.MULTIPLE_RESULTS, "see each entry's own status")


def _named(code: "v2.Code.ValueType", text: str) -> v2.Status:
    return v2.Status(code=code, message=f"{v2.Code.Name(code)}: {text}")
