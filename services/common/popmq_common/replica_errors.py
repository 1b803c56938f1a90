"""Errors between the replicas of one broker, and of their register."""

from popmq_common.error_families import Refused, StorageFault, Unavailable


class NoSuccessor(Refused):
    """{primary} cannot hand over to {to}; in sync and able to take over: {able}."""


class NotForced(Refused):
    """Replica {replica} is not made primary: {reason}."""


class StaleEpoch(Unavailable):
    """{replica} speaks of epoch {epoch}, and it is epoch {now}: a newer primary has begun, or the
    replica must greet this one again."""


class RegisterRecordUnreadable(Unavailable):
    """The register's record {where} cannot be read: {reason}."""


class ReplicaDiverged(StorageFault):
    """This replica has shown its log up to {shown}, and it is equal to the primary's up to {split}
    only. Its files are left as they are. If the primary's are right, start it with an empty
    directory."""


class ReplicaOfOther(StorageFault):
    """Replica {replica} cannot be one of broker {broker}: {reason}."""


class AckBeyondLog(StorageFault):
    """Replica {replica} says that it has the log up to {acked}, and it ends at {end}."""


class RegisterUnreachable(Unavailable):
    """The register {register} does not answer, or refuses: {reason}."""
