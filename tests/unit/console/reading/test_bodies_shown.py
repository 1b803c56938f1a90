"""How is a body shown?"""

from popmq_console.reading.bodies_shown import (
    HEX_BYTES_MAX,
    TEXT_CHARS_MAX,
    head_line,
    hex_rows,
    shown_body,
)


def test_json_is_made_readable() -> None:
    found = shown_body(b'{"a":[1]}', 9)
    assert (found.kind, found.text) == ("JSON", '{\n  "a": [\n    1\n  ]\n}')


def test_what_only_looks_like_json_is_text() -> None:
    for body in (b"{", b"[1", b"{'a': 1}", b"[" * 50_000):
        assert shown_body(body, len(body)).kind == "text"


def test_bytes_are_shown_as_rows() -> None:
    found = shown_body(b"\xff\x00A", 3)
    assert (found.kind, found.text, found.cut) == ("bytes", None, False)
    assert found.hex == hex_rows(b"\xff\x00A")
    assert found.hex.startswith("000000  ff 00 41")
    assert found.hex.endswith("  ..A")


def test_large_bodies_are_cut() -> None:
    assert shown_body(b"\xff" * 9_999, 9_999).hex_bytes == HEX_BYTES_MAX
    assert shown_body(b"\xff" * 9_999, 9_999).cut
    long = shown_body(b"a" * (TEXT_CHARS_MAX + 1), TEXT_CHARS_MAX + 1)
    assert long.cut
    assert long.text is not None
    assert len(long.text) == TEXT_CHARS_MAX


def test_a_beginning_may_end_within_a_character() -> None:
    found = shown_body("aü".encode()[:2], 99)
    assert (found.text, found.cut) == ("a", True)


def test_one_line_of_it() -> None:
    assert head_line(b"a\n  b", 5) == "a b"
    assert head_line(b"x" * 999, 999).endswith("…")
    assert head_line(b"\xff\xfe", 2) == "ff fe …"
