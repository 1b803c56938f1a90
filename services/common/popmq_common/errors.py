"""Every error a service can answer with, in five families.

    PopMQError
    ├── BadRequest      the caller must change the request
    ├── NotFound        it does not exist
    ├── Refused         valid, but not now
    ├── Unavailable     somebody else did not answer; worth another try
    └── StorageFault    the disk is not what was written, or takes nothing more

Errors are raised deep and translated once: the proxy's `core/messages/status.py` has the only table
to codes of the public protocol, `wire.py` carries them between services by class name and fields.
A class's docstring is its message; `{name}` in it is filled from the error's fields.
"""

from popmq_common.error_families import BadRequest as BadRequest
from popmq_common.error_families import NotFound as NotFound
from popmq_common.error_families import PopMQError as PopMQError
from popmq_common.error_families import Refused as Refused
from popmq_common.error_families import StorageFault as StorageFault
from popmq_common.error_families import Unavailable as Unavailable
from popmq_common.replica_errors import AckBeyondLog as AckBeyondLog
from popmq_common.replica_errors import NoSuccessor as NoSuccessor
from popmq_common.replica_errors import NotForced as NotForced
from popmq_common.replica_errors import RegisterRecordUnreadable as RegisterRecordUnreadable
from popmq_common.replica_errors import RegisterUnreachable as RegisterUnreachable
from popmq_common.replica_errors import ReplicaDiverged as ReplicaDiverged
from popmq_common.replica_errors import ReplicaOfOther as ReplicaOfOther
from popmq_common.replica_errors import StaleEpoch as StaleEpoch

# --- BadRequest ---


class IllegalTopic(BadRequest):
    """Illegal topic {topic!s}: {reason}."""


class IllegalGroup(BadRequest):
    """Illegal consumer group {group!s}: {reason}."""


class IllegalOwner(BadRequest):
    """Illegal owner {owner!r}: allowed are 1 to 64 characters of a to z, A to Z, 0 to 9, dot, dash,
    underscore, @ and +."""


class IllegalTag(BadRequest):
    """Illegal message tag: {reason}."""


class IllegalKey(BadRequest):
    """Illegal message key: {reason}."""


class IllegalMessageGroup(BadRequest):
    """Illegal message group: {reason}."""


class IllegalProperty(BadRequest):
    """Illegal message property {name!s}: {reason}."""


class IllegalMessageId(BadRequest):
    """Illegal message id: {reason}."""


class IllegalDeliveryTime(BadRequest):
    """Illegal delivery time: {reason}."""


class IllegalFilter(BadRequest):
    """Illegal filter expression {expression!s}: {reason}."""


class IllegalInvisibleTime(BadRequest):
    """Illegal invisible time: {reason}."""


class IllegalPollingTime(BadRequest):
    """Illegal long polling time: {reason}."""


class IllegalOffset(BadRequest):
    """Illegal offset {offset}: queue {queue_id} of topic {topic} has {min_offset} to
    {max_offset}."""


class IllegalQueueCount(BadRequest):
    """Illegal number of queues {count}: {reason}."""


class InvalidReceiptHandle(BadRequest):
    """The receipt handle is not valid: {reason}."""


class InvalidRecallHandle(BadRequest):
    """The recall handle is not valid: {reason}."""


class RecallTooLate(BadRequest):
    """The message cannot be recalled any more: its time has come. It was delivered, unless it had
    been recalled before."""


class InvalidTransactionId(BadRequest):
    """The transaction id is not valid: {reason}."""


class IllegalRecoveryTime(BadRequest):
    """Illegal orphaned transaction recovery duration: {reason}."""


class MessageTypeConflict(BadRequest):
    """Topic {topic} takes {topic_type} messages, this one is {message_type}; a topic for it is
    made by: popmq topic create NAME --type {message_type}."""


class MessagesCorrupted(BadRequest):
    """The messages of one request do not fit together: {reason}."""


class MessageBodyEmpty(BadRequest):
    """The message has no body."""


class MessageTooLarge(BadRequest):
    """The body has {size_bytes} bytes, the limit is {limit_bytes}."""


class PropertiesTooLarge(BadRequest):
    """The message's properties are too large: {reason}."""


class ClientIdRequired(BadRequest):
    """The request lacks the metadata x-mq-client-id."""


class IllegalUser(BadRequest):
    """Illegal user {user!s}: {reason}."""


class IllegalAccessEntry(BadRequest):
    """Illegal entry of a policy: {reason}."""


class NotServed(BadRequest):
    """{what} is not supported by this version of the server."""


# --- NotFound ---


class TopicNotFound(NotFound):
    """Topic {topic} does not exist; it is made by: popmq topic create {topic}."""


class GroupNotFound(NotFound):
    """Consumer group {group} does not exist; it is made by: popmq group create {group}."""


class NothingToRecall(NotFound):
    """No message waits for its time under this recall handle."""


class OffsetNotFound(NotFound):
    """Group {group} has committed nothing in queue {queue_id} of topic {topic} yet."""


class BrokerNotFound(NotFound):
    """There is no broker {broker!s}; the brokers are {known}."""


class UserNotFound(NotFound):
    """There is no user {user}; one is made by: popmq user create {user}."""


class NothingThere(NotFound):
    """There is no {what}."""


class ServiceNotFound(NotFound):
    """There is no service {service} here."""


# --- Refused ---


class StartNotFixed(Refused):
    """Nobody has fixed where group {group} starts in topic {topic}; receive again."""


class TopicExists(Refused):
    """Topic {topic} exists as {message_type} with {queues} queues. Change it with: popmq topic set
    {topic}."""


class GroupExists(Refused):
    """Group {group} exists with other settings: {order}, {max_attempts} attempts, starts at
    {consume_from}. Change it with: popmq group set {group}."""


class OwnedByOther(Refused):
    """The {kind} {name} exists and belongs to {owner}, not to {wanted}. Change that with: popmq
    {kind} set {name} --owner {wanted}."""


class HeldByReceives(Refused):
    """Group {group} holds {held} messages of queue {queue_id} of topic {topic} by receives, whose
    acks say how far it is; ack them, or move the group with: popmq group reset-offset."""


class ResetMeanwhile(Refused):
    """Group {group} was reset in queue {queue_id} of topic {topic} since this client pulled there;
    the offset is superseded. Pull again: the answer says where to go on."""


class TooManyInFlight(Refused):
    """Group {group} holds {count} messages of topic {topic} that it has not acknowledged; the
    limit of a queue is {limit}."""


class TooManyRequests(Refused):
    """Too many {what} at a time, the limit is {limit}."""


class AlreadySettled(Refused):
    """The transaction {transaction_id} was {outcome} before; that cannot be taken back."""


class TooManyTransactions(Refused):
    """{count} transactions of this broker are not settled, the limit is {limit}; commit them or
    roll them back, or raise POPMQ_BROKER_HALF_MESSAGES_MAX."""


class AdminSecretMissing(Refused):
    """{call} needs the admin secret of this server: give it with --secret-file or
    POPMQ_ADMIN_SECRET_FILE."""


class AdminSecretWrong(Refused):
    """{call} is not permitted: the admin secret is not this server's."""


class CredentialsRefused(Refused):
    """The sender of this is not known: {reason}. Sign requests with an access key and its secret,
    or show a client certificate."""


class AccessDenied(Refused):
    """User:{user} has no permission to access {resource} from {address}: {reason}."""


class LimitReached(Refused):
    """{subject} may {what}, no more; try again in {wait_ms} ms."""


class FirstUseLimit(Refused):
    """The first use of a {what} creates it only while a broker has fewer than {limit}; create it
    with: popmq {what} create, or raise {variable}."""


class AccessChanged(Refused):
    """Somebody else changed users or policies at the same time; try again."""


class UserExists(Refused):
    """User {user} exists. Change it with: popmq user update {user}."""


class AclEntryExists(Refused):
    """User {user} has an entry for {resource}. Change it with: popmq acl update."""


class LastSuperUser(Refused):
    """Nobody could change users and policies any more: this is the last enabled Super user."""


class NoPermission(Refused):
    """Topic {topic} is not {action}."""


class ExportsNothing(Refused):
    """Broker {broker} has no place for snapshots: set POPMQ_BROKER_EXPORT_DIR."""


class ExportRunning(Refused):
    """Broker {broker} is writing snapshot {snapshot_id}; ask again when it is done."""


class NoIndex(Refused):
    """Broker {broker} writes no index of keys (POPMQ_BROKER_INDEX=off); messages are found by
    queue and offset only."""


class IndexBehind(Refused):
    """The index of keys is {behind_bytes} bytes of the log behind and catches up by itself; ask
    again."""


class IndexDamaged(Refused):
    """The index file {path} was damaged and is being made again from the log; ask again."""


class TooMuchDamage(Refused):
    """More than {limit} stretches of messages cannot be read, or were skipped; repair the
    queues with popmq store rebuild, or restore the broker from a copy."""


class RebuildRunning(Refused):
    """Queue {queue_id} of topic {topic} is being repaired; ask again when that is done."""


class NotAuthorized(Refused):
    """The link's shared secret is not the same at both ends, or one end is of a version that
    cannot prove it; upgrade brokers first, then proxies, then nameservers."""


class DiskFull(Refused):
    """The disk of {path} is full; nothing was stored. Sends work again when there is space."""


# --- Unavailable ---


class NoBroker(Unavailable):
    """No broker is registered with the nameserver."""


class BrokerDown(Unavailable):
    """Broker {broker} does not answer: {reason}."""


class AccessNotKnown(Unavailable):
    """This proxy has not learned from a broker yet who may do what; try again."""


class NameserverDown(Unavailable):
    """No nameserver answers: {reason}."""


class BrokerSilent(BrokerDown):
    """Broker {broker} has sent nothing for a while; it may be paused, or cut off."""


class BrokerUnreachable(BrokerDown):
    """Broker {broker} cannot be reached: {reason}. Nothing was sent to it."""


class NotPrimary(BrokerUnreachable):
    """Broker {broker} has no primary here: {reason}. Nothing was sent to it."""


class DeadlinePassed(Unavailable):
    """Broker {broker} did not answer within {timeout_ms} ms."""


# --- StorageFault ---


class Corrupt(StorageFault):
    """{path} is damaged at offset {offset}: {reason}."""


class DirectoryInUse(StorageFault):
    """The data directory {path} is in use by another process ({holder}); stop it, or choose
    another directory."""


class DirectoryNotWritable(StorageFault):
    """{path} cannot be written by user {user}: {reason}."""


class StoreClosed(StorageFault):
    """The broker is shutting down."""


def all_errors() -> dict[str, type[PopMQError]]:
    """Every error class by its name."""
    found: dict[str, type[PopMQError]] = {}
    todo: list[type[PopMQError]] = [PopMQError]
    while todo:
        error = todo.pop()
        found[error.__name__] = error
        todo.extend(error.__subclasses__())
    return found
