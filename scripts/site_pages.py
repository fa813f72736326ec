"""A hook of mkdocs: the site has the pages of the repository, at the places they have there.

README.md and its neighbours stay at the root, where a git host shows them, and `docs/` beside them.
The site keeps that tree, so a link such as `docs/windows.md` in the README, or `../README.md` in
`docs/`, is right in both, as it stands.  Two things that a git host does are done here: a link to a
folder shows what is in it, and a list needs no empty line above it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SHOWN = (".md", ".svg", ".png")
LISTED = DOCS / "decisions"
"""A folder whose pages are many: the site lists them by their titles."""

_LINK = re.compile(r"(?<=\]\()([\w./-]+?)/?(?=[)#])")
_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"(?:[-*+]|1\.)\s")
_PARAGRAPH = re.compile(r"(?!(?:[-*+#>|]|\d+\.)\s)[^\s|]")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages of the listed folder come last in their section, without being named one by one."""
    assert config.nav is not None
    pages = [f"docs/{LISTED.name}/index.md", *map(_uri, sorted(LISTED.glob("*.md")))]
    config.nav = [*config.nav, {LISTED.name.capitalize(): pages}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for file in list(files):
        if file.abs_src_path is not None and Path(file.abs_src_path).is_relative_to(DOCS):
            files.remove(file)
    for path in _shown():
        files.append(File.generated(config, _uri(path), abs_src_path=str(path)))
    files.append(File.generated(config, f"{_uri(LISTED)}/index.md", content=_list_of(LISTED)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return _spaced(_LINK.sub(lambda link: _target(link[1], page.file.src_uri), markdown))


def _shown() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted(path for path in DOCS.rglob("*") if path.suffix in SHOWN)


def _uri(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _list_of(folder: Path) -> str:
    lines = [f"# {folder.name.capitalize()}", ""]
    for path in sorted(folder.glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def _target(link: str, page: str) -> str:
    """Of a link to the listed folder, its page."""
    found = (ROOT / page).parent / link
    return f"{link}/index.md" if found.resolve() == LISTED else link


def _spaced(markdown: str) -> str:
    """An empty line between a paragraph and the list below it, but not within code."""
    lines: list[str] = []
    is_code = False
    for line in markdown.split("\n"):
        if lines and not is_code and _ITEM.match(line) and _PARAGRAPH.match(lines[-1]):
            lines.append("")
        if _FENCE.match(line):
            is_code = not is_code
        lines.append(line)
    return "\n".join(lines)
