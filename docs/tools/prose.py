"""Sentences of the README and the site that are too long to be read aloud; ``python docs/tools/prose.py`` lists them.

A sentence may have 45 words and one semicolon. Code, tables, lists of names and directives are not sentences.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "docs/*.md", "docs/guide/*.md", "docs/methods/*.md", "docs/research/*.md", "docs/reference/*.md")
WORDS, SEMICOLONS = 45, 1
BLOCK = r"^(```|:::)[^\n]*\n.*?^\1[^\n]*$|^\$\$.*?\$\$$"  # code, directives, equations


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The number of the first line, and the words, of each paragraph and item of a list."""
    text = re.sub(BLOCK, lambda found: "\n" * found[0].count("\n"), text, flags=re.M | re.S)
    first, lines = 0, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins_item = re.match(r"\s*([-*]|\d+\.) ", line)
        if lines and (begins_item or not line.strip() or line.startswith(("|", "#", ":", "---"))):
            yield first, " ".join(lines)
            lines = []
        if line.strip() and not line.startswith(("|", "#", ":", "---", "    ", "!", "```")):
            first = number if not lines else first
            lines.append(line.strip())


def too_long(text: str) -> Iterator[tuple[int, str]]:
    """The lines and sentences that are."""
    for line, paragraph in paragraphs(text):
        plain = re.sub(r"`[^`]*`|\$[^$]*\$", "X", re.sub(r"\]\([^)]*\)", "]", paragraph))
        for sentence in re.split(r"(?<=[.?!]) +(?=[A-Z\[(*\"])", plain):
            if len(sentence.split()) > WORDS or sentence.count(";") > SEMICOLONS:
                yield line, sentence


def main() -> int:
    """List the sentences; the exit status says whether there are any."""
    found = 0
    for page in sorted(path for pattern in PAGES for path in ROOT.glob(pattern)):
        for line, sentence in too_long(page.read_text(encoding="utf-8")):
            print(f"{page.relative_to(ROOT)}:{line}: {len(sentence.split())} words: {sentence}")
            found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
