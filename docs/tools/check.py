"""Checks a built site: every link within it leads to a page and a place on it, and nothing is fetched from elsewhere.

python docs/tools/check.py FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"link": "href", "script": "src", "img": "src", "source": "src", "iframe": "src"}


class Page(HTMLParser):
    """The links, the fetched files and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to, fetches or names."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in FETCHED and FETCHED[tag] in given and given.get("rel") not in ("canonical", "author"):
            self.fetched.append(given[FETCHED[tag]])


def problems(folder: Path) -> list[str]:
    """What is wrong, a line each."""
    paths = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        here = path.relative_to(folder)
        found += [f"{here}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{here}: no {url}")
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{here}: no place {url}")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "every link leads somewhere, nothing is fetched from elsewhere")
    sys.exit(bool(lines))
