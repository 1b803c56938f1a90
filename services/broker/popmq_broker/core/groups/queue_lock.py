"""The queue lock: a queue is one consumer's alone, because it is consumed in order.

A consumer asks for a queue before it pulls it, and asks again while it works on it. It has the
queue until `life_ms` after it asked last, or until it gives it back.

    asked by       holder                  answer
    -----------    --------------------    -----------------------
    anybody        none, or its time is    granted for `life_ms`
                   over, or has left
    the holder     itself                  granted again
    another        holds it                refused

While somebody holds a queue, nobody else of the group can pull it. Beside the access lock
(core/groups/access_lock.py), which watches offsets and goes over by itself: this one goes by time
alone, and is for consumers that ask for it.

Source: RocketMQ RebalanceLockManager. Differs: a clock that was set back does not make a lock live
longer than `life_ms`. Locks are not on disk: after a restart the first who asks has the queue.
"""

from dataclasses import dataclass

from popmq_broker.core.groups.offsets import QueueKey


@dataclass(slots=True)
class LockHolder:
    client_id: str
    until_ms: int


class QueueLocks:
    """Of all queues that were ever locked; as many as there are such queues of groups."""

    def __init__(self, life_ms: int) -> None:
        self.life_ms = life_ms
        self._holders: dict[QueueKey, LockHolder] = {}

    def lock(self, key: QueueKey, client_id: str, now_ms: int) -> bool:
        """True: the queue is the client's until `now_ms` + `life_ms`."""
        if self.holder(key, now_ms) not in ("", client_id):
            return False
        self._holders[key] = LockHolder(client_id, now_ms + self.life_ms)
        return True

    def unlock(self, key: QueueKey, client_id: str) -> bool:
        """False: it was not this client's, and stays as it is."""
        holder = self._holders.get(key)
        if holder is None or holder.client_id != client_id:
            return False
        del self._holders[key]
        return True

    def holder(self, key: QueueKey, now_ms: int) -> str:
        """Its client id; empty: nobody holds it."""
        holder = self._holders.get(key)
        if holder is None:
            return ""
        holder.until_ms = min(holder.until_ms, now_ms + self.life_ms)
        if holder.until_ms <= now_ms:
            del self._holders[key]
            return ""
        return holder.client_id

    def held(self, now_ms: int) -> int:
        """How many queues somebody holds."""
        return sum(bool(self.holder(key, now_ms)) for key in list(self._holders))

    def leave(self, client_id: str, group: str | None = None, topic: str | None = None) -> None:
        """The client gives up its queues, all or those of a group and topic."""
        for key in list(self._holders):
            if group in (None, key.group) and topic in (None, key.topic):
                self.unlock(key, client_id)

    def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """The group, or the topic, is deleted."""
        for key in [key for key in self._holders if group == key.group or topic == key.topic]:
            del self._holders[key]
