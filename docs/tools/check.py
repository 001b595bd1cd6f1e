"""Checks a built site: links within it lead somewhere, nothing is fetched from elsewhere, no example took long.

python docs/tools/check.py FOLDER
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = ("src", "srcset", "poster", "data")  # and href, of links to files
REMOTE = re.compile(r"""(?:url\(|@import|import\(|fetch\()\s*["']?(?:https?:)?//[^"')\s]+""")  # in styles and scripts
TOOK = re.compile(r"Total running time of the script:.*?\((\d+) minutes ([\d.]+) seconds\)", re.S)
LONGEST = 60.0  # seconds of an example; the slowest takes 12 to 20 on a machine that does nothing else


class Page(HTMLParser):
    """The links, the fetched files and the anchors of a page, and what its styles and scripts fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors = {""}
        self.inline = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to, fetches or names."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.inline += given.get("style", "")
        self.inside = tag
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and "href" in given and given.get("rel") not in ("canonical", "author"):
            self.fetched.append(given["href"])
        places = [given[name] for name in FETCHED if name in given and (name != "data" or tag == "object")]
        self.fetched += [part.split()[0] for place in places for part in place.split(", ")]

    def handle_data(self, data: str) -> None:
        """Note styles and scripts."""
        if getattr(self, "inside", "") in ("style", "script"):
            self.inline += data

    def handle_endtag(self, tag: str) -> None:
        """Leave a style or a script."""
        self.inside = ""


def problems(folder: Path) -> list[str]:
    """What is wrong, a line each."""
    paths = [path for path in folder.rglob("*.html") if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    found = [] if pages else [f"{folder}: holds no page"]
    for path in folder.rglob("*.css"):
        found += [f"{path.relative_to(folder)}: {text}" for text in REMOTE.findall(path.read_text(encoding="utf-8"))]
    for path, page in pages.items():
        here = path.relative_to(folder)
        found += [f"{here}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        found += [f"{here}: {text}" for text in REMOTE.findall(page.inline)]
        found += [f"{here}: took {m}:{s}" for m, s in _times(path) if 60 * int(m) + float(s) > LONGEST]
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


def _times(path: Path) -> list[tuple[str, str]]:
    return TOOK.findall(path.read_text(encoding="utf-8")) if "gallery" in path.parts else []


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "links lead somewhere, nothing is fetched from elsewhere, no example took long")
    sys.exit(bool(lines))
