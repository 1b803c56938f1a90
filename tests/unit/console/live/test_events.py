"""Is what a browser gets an event of the standard, whatever the page has in it?"""

import pytest

from popmq_console.live.events import event, live_part


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\rb"])
def test_no_line_of_a_page_begins_another_field(text: str) -> None:
    assert event("live", text) == b"event: live\ndata: a\ndata: b\n\n"


def test_an_empty_event_is_an_event() -> None:
    assert event("beat") == b"event: beat\ndata: \n\n"


def test_the_live_part_is_cut_out() -> None:
    page = '<main><h1>x</h1><section id="live" a="b">\n<p>1</p>\n</section><section>2</section>'
    assert live_part(page) == '<section id="live" a="b">\n<p>1</p>\n</section>'
    assert live_part("<section>2</section>") is None
