"""A real PopMQ inside a test: `from popmq.testing import PopmqBroker`, or the pytest fixture
`popmq_broker`. docs/testing-your-app.md shows both."""

from popmq_testing.broker import PopmqBroker
from popmq_testing.views import DeadLetterView, GroupView, SentMessage, TopicView

__all__ = ["DeadLetterView", "GroupView", "PopmqBroker", "SentMessage", "TopicView"]
