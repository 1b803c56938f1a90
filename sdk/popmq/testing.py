"""A real PopMQ inside a test. Needs the extra: pip install 'popmq[testing]'.

def test_an_order_is_billed(popmq_broker):
    popmq_broker.send("orders", b"1")
    ...

It is the server itself, so the SDK alone does not have it; docs/testing-your-app.md.
"""

try:
    from popmq_testing import DeadLetterView, GroupView, PopmqBroker, SentMessage, TopicView
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.startswith(("popmq", "apache")):
        raise
    text = (
        f"popmq.testing needs {missing.name}, which is not installed: pip install 'popmq[testing]'"
    )
    raise ModuleNotFoundError(text, name=missing.name) from missing

__all__ = ["DeadLetterView", "GroupView", "PopmqBroker", "SentMessage", "TopicView"]
