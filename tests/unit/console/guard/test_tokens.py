"""Can a visitor make a cookie or a form's token? None can."""

from popmq_console.guard.tokens import cookie_of, form_token, is_form_token, visitor_of

KEY, OTHER = b"k" * 32, b"o" * 32


def test_an_own_cookie_names_its_visitor() -> None:
    assert visitor_of(KEY, cookie_of(KEY, "v1")) == "v1"


def test_a_cookie_of_anybody_else_names_nobody() -> None:
    made = cookie_of(KEY, "v1")
    forged = [
        "",
        "v1",
        "v1.",
        ".",
        made[:-1],
        made + "0",
        made.replace("v1", "v2"),
        cookie_of(OTHER, "v1"),
        f"v1.{form_token(KEY, 'v1')}",
        "v1.ü",
        "x" * 100 + "." + made.partition(".")[2],
    ]
    assert [one for one in forged if visitor_of(KEY, one)] == []


def test_a_token_is_of_one_visitor_and_one_console() -> None:
    assert is_form_token(KEY, "v1", form_token(KEY, "v1"))
    for wrong in ("", "ü", form_token(KEY, "v2"), form_token(OTHER, "v1"), cookie_of(KEY, "v1")):
        assert not is_form_token(KEY, "v1", wrong)
