"""Topics and groups that nobody has created, made when they are first used."""

from collections.abc import Callable

from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.config import ProxyConfig
from popmq_proxy.core.routing import order_conf

Ask = Callable[[str], None]
"""Of a user, by name; empty where nobody is asked who they are."""


class FirstUse:
    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self.check: Ask = _nobody_minds
        """Before something is made for that user. Raises `LimitReached`."""
        self.made: Ask = _nobody_minds

    @property
    def makes_topics(self) -> bool:
        """Where policies are asked, what may be made is for those who may Create."""
        return self._config.create_topics and not self._config.authorization

    def topic(self, name: str, brokers: list[str]) -> link.Call:
        """To each of these. No route may mean that its broker is just starting and has the topic:
        it must stay as it is."""
        count = self._config.create_topic_queues
        made = link.TopicConfig(
            name=name,
            read_queues=count,
            write_queues=count,
            perm=6,
            message_type="MIXED",
            order_conf=order_conf.conf_of(brokers, count),
        )
        return link.Call(put_topic=link.PutTopic(topic=made, only_new=True, first_use=True))


def _nobody_minds(_: str) -> None:
    return
