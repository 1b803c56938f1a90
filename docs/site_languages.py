"""Hooks of the documentation site: links between the languages, and anchors that all of them share.

A page's translation into Chinese is the page of the same name in docs/zh. Its pages link as they do
in the repository: to a Chinese page by its Chinese headings, to an English one where there is no
translation. On the site a translated page has the anchors of its original, so that an English page
in the Chinese site, which stands there for one that is not translated, finds them too.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDER = "zh"
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
_HEADING = re.compile(r"^(#{1,6} +)(.*?) *$", re.M)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Anchors of the original, and links that lead to the page in the right language."""
    source = page.file.src_uri
    language = config.plugins["i18n"].current_language
    if is_chinese(source):
        markdown = with_anchors(markdown, anchors(_text(original(source))))

    def follow(found: re.Match[str]) -> str:
        return link_for_site(found[0], source, page.file.url, language)

    return _LINK.sub(follow, markdown)


def on_page_context(context: Any, page: Any, config: Any, **_: Any) -> Any:
    """The language switch leads to this page in the other language, on the front page too."""
    for one in config.extra.alternate:
        file = page.file.alternates.get(one["lang"])
        one["link"] = file.url if file else one["link"]
    return context


def link_for_site(written: str, source: str, url: str, language: str) -> str:
    """A link of the page `source`, which is at `url` of the site in `language`.

    One that leads to the other language becomes HTML: MkDocs knows the pages of one at a time.
    """
    found = _LINK.fullmatch(written)
    assert found is not None
    text, path, anchor = found[1], found[2], found[3] or ""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
    if not target.endswith(".md") or not (DOCS / target).is_file():
        return written
    if is_chinese(target) and anchor:
        anchor = "#" + anchor_of_original(anchor[1:], target)
    if is_chinese(target) != (language == FOLDER) and not _stands_in(target, source):
        there = posixpath.relpath(url_of(target), url.rstrip("/"))
        return f'<a href="{there}/{anchor}">{text}</a>'
    return f"[{text}]({path}{anchor})"


def _stands_in(target: str, source: str) -> bool:
    """In the Chinese site: an English page that is not translated, or is linked by one."""
    if is_chinese(target):
        return False
    return not is_chinese(source) or not (DOCS / FOLDER / target).is_file()


def is_chinese(uri: str) -> bool:
    return uri.startswith(f"{FOLDER}/")


def original(uri: str) -> str:
    return uri.removeprefix(f"{FOLDER}/")


def url_of(uri: str) -> str:
    """Without the slash at its end."""
    folder, name = posixpath.split(uri.removesuffix(".md"))
    return folder or "." if name == "README" else posixpath.join(folder, name)


def anchors(text: str) -> list[str]:
    """Of each heading, as GitHub makes them."""
    found: list[str] = []
    for _, heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = first = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = 0
        while slug in found:
            count += 1
            slug = f"{first}-{count}"
        found.append(slug)
    return found


def anchor_of_original(anchor: str, uri: str) -> str:
    """Unchanged where the page has no such heading: a broken link, which MkDocs finds."""
    found = dict(zip(anchors(_text(uri)), anchors(_text(original(uri))), strict=True))
    return found.get(anchor, anchor)


def with_anchors(text: str, names: list[str]) -> str:
    """Each heading of `text` gets the anchor at its place in `names`."""
    fences = [found.span() for found in _FENCE.finditer(text)]
    left = iter(names)

    def name(found: re.Match[str]) -> str:
        if any(start < found.start() < end for start, end in fences):
            return found[0]
        return f"{found[0].rstrip()} {{ #{next(left)} }}"

    return _HEADING.sub(name, text)


def _text(uri: str) -> str:
    return (DOCS / uri).read_text()
