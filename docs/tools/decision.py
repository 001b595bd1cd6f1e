"""Draws the decision picture of *Which method?* as SVG in the colours of the page.

``python docs/tools/decision.py`` writes it.
"""

from pathlib import Path

STEPS = [
    (("More rows than memory holds?",), "yes", ("Fitted to opttree.Rows", "TAO…, TAOForest…, BoostedTrees…")),
    (("Must people read the model,", "or must it be small?"), "no", ("Sums of trees", "TAOForest…, BoostedTrees…")),
    (("Proved optimal,", "or under side constraints?"), "yes", ("Exact trees", "ORTRegressor, OCTClassifier; MIP")),
    (("One feature in each condition?",), "yes", ("Axis-aligned trees", 'TAO… splits="axis"; ORT-L')),
    (("Answers that change smoothly", "with the features?"), "yes", ("Soft trees", "ORRT…, SDTR…")),
    (("A minute to spare?",), "yes", ("The best of a portfolio", "AutoTreeRegressor, …Classifier")),
]
LAST = ("Oblique trees", 'TAO… leaves="linear"; GET…')
WIDTH, ROW, BOX = 540, 92, 58


def box(x: int, y: int, width: int, kind: str, lines: tuple[str, ...]) -> str:
    """A box with a line or two; the first line of an answer is its head."""
    middle = y + BOX / 2 - 9 * (len(lines) - 1)
    styles = ["head" if kind == "answer" and k == 0 else "line" for k in range(len(lines))]
    text = "".join(
        f'<text class="{style}" x="{x + width / 2}" y="{middle + 18 * k + 5}">{line.replace("…", "&#8230;")}</text>'
        for k, (style, line) in enumerate(zip(styles, lines, strict=True))
    )
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{BOX}" rx="8"/>{text}'


def arrow(x1: int, y1: int, x2: int, y2: int, word: str) -> str:
    """An arrow, with a word beside it."""
    at = (x1 + 10, (y1 + y2) / 2 + 5, "start") if x1 == x2 else ((x1 + x2) / 2, y1 - 7, "middle")
    line = f'<path class="way" d="M{x1} {y1}L{x2} {y2}" marker-end="url(#tip)"/>'
    return f'{line}<text class="word" style="text-anchor:{at[2]}" x="{at[0]}" y="{at[1]}">{word}</text>'


def picture() -> str:
    """The whole picture."""
    parts = []
    for k, (question, word, answer) in enumerate(STEPS):
        y = 8 + k * ROW
        other = "yes" if word == "no" else "no"
        parts.append(box(4, y, 230, "question", question))
        parts.append(arrow(234, y + BOX // 2, 272, y + BOX // 2, word))
        parts.append(box(278, y, 258, "answer", answer))
        parts.append(arrow(119, y + BOX, 119, y + ROW - 6, other))
    y = 8 + len(STEPS) * ROW
    parts.append(box(4, y, 230, "answer", LAST))
    title = "Which method: six questions, from the top"
    return (
        f'<div class="decision"><svg viewBox="0 0 {WIDTH} {y + BOX + 8}" role="img" aria-label="{title}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>{"".join(parts)}</svg></div>\n'
    )


if __name__ == "__main__":
    (Path(__file__).parent.parent / "_static" / "decision.html").write_text(picture())
