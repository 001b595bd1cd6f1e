"""Draws the layers of the code as SVG in the colours of the page; ``python docs/tools/house.py`` writes it."""

from pathlib import Path

LAYERS = [
    ("experiments", "protocols, runs, reports, benchmarks"),
    ("estimators, command line, exports, plots, data", "the doors: scikit-learn classes, files, pictures"),
    ("solvers", "algorithms, their one driver solve(), results, combinators, races"),
    ("opttree.problems", "the statement, losses, penalties, constraints, formulations"),
    ("opttree.tree, opttree.forest", "models: structs of arrays"),
    ("opttree.kernels", "compiled functions on arrays, and their twins for GPUs"),
]
WIDTH, ROW, BOX = 720, 70, 58


def picture() -> str:
    """The whole picture."""
    parts = []
    for k, (name, what) in enumerate(LAYERS):
        y = 8 + k * ROW
        kind = "doors" if k < 2 else "layer"
        parts.append(
            f'<rect class="{kind}" x="8" y="{y}" width="{WIDTH - 16}" height="{BOX}" rx="8"/>'
            f'<text class="head" x="{WIDTH / 2}" y="{y + 25}">{name}</text>'
            f'<text x="{WIDTH / 2}" y="{y + 44}">{what}</text>'
        )
    title = "The layers of the code, those above import those below"
    height = 8 + len(LAYERS) * ROW
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"'
    return f'<div class="house"><svg {box}>{"".join(parts)}</svg></div>\n'


if __name__ == "__main__":
    (Path(__file__).parent.parent / "_static" / "house.html").write_text(picture())
