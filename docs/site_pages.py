"""Hooks of the documentation site: files outside docs/ that pages link to become pages of it.

Pages link as they do in the repository (`../CONTRIBUTING.md`, `../examples/tasks.py`), so that they
can be read there too. Such a file becomes `project/CONTRIBUTING.md`, a program or a folder a page
that shows it, and links follow. Read by MkDocs; see mkdocs.yml.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PROJECT_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_LANGUAGES = {".py": "python", ".yml": "yaml", ".yaml": "yaml", ".proto": "protobuf"}


@event_priority(-200)  # type: ignore[untyped-decorator]
def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of files outside docs/, and of those that they link to in turn.

    After the plugin i18n, which takes pages of docs/ alone.
    """
    todo = [*PROJECT_PAGES]
    for page in files.documentation_pages():
        todo += _outside(f"docs/{page.src_uri}", page.content_string)
    known: set[str] = set()
    while todo:
        name = todo.pop()
        if name in known:
            continue
        known.add(name)
        text = _content(name)
        files.append(_generated(config, _page_of(name), text))
        if name.endswith(".md") or (ROOT / name).is_dir():
            todo += _outside(name, text)
    return files


def _generated(config: Any, uri: str, text: str) -> File:
    """A page without a translation, in the site of the current language."""
    i18n = config.plugins["i18n"]
    alternates: dict[str, File] = {}
    for language in i18n.build_languages:
        file = File.generated(config, uri, content=text)
        if language != i18n.default_language:
            file.dest_uri = f"{language}/{file.dest_uri}"
        file.locale, file.alternates = i18n.default_language, alternates
        file.locale_alternate_of = language
        alternates[language] = file
    return alternates[i18n.current_language]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository → links to pages of the site."""
    source = page.file.src_uri
    name = _name_of(source)

    def follow(found: re.Match[str]) -> str:
        target = _target(name, found[2])
        if target is None or target.startswith("docs/"):
            if target is None or not source.startswith("project/"):
                return found[0]
            uri = target.removeprefix("docs/")
        else:
            uri = _page_of(target)
        return found[1] + posixpath.relpath(uri, posixpath.dirname(source) or ".") + found[3]

    return LINK.sub(follow, markdown)


def _outside(name: str, text: str) -> list[str]:
    targets = [_target(name, found[2]) for found in LINK.finditer(text)]
    return [one for one in targets if one and not one.startswith("docs/")]


def _target(name: str, link: str) -> str | None:
    """The path in the repository that a link of file `name` leads to; None: not one of ours."""
    if re.match(r"[a-z]+:|/", link):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
    return path if (ROOT / path).exists() else None


def _page_of(name: str) -> str:
    return f"project/{name}" if name.endswith(".md") else f"project/{name}.md"


def _name_of(uri: str) -> str:
    if not uri.startswith("project/"):
        return f"docs/{uri}"
    name = uri.removeprefix("project/")
    return name if (ROOT / name).exists() else name.removesuffix(".md")


def _content(name: str) -> str:
    path = ROOT / name
    if path.is_dir():
        inside = (one for one in sorted(path.iterdir()) if not one.name.startswith(("_", ".")))
        links = [f"- [{one.name}]({path.name}/{one.name})" for one in inside]
        return f"# {name}\n\n" + "\n".join(links) + "\n"
    text = path.read_text()
    if name.endswith(".md"):
        return text
    return f"# {name}\n\n```{_LANGUAGES.get(path.suffix, 'text')}\n{text}```\n"
