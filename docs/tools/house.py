"""Draws the layers of the code as SVG in the colours of the page; ``python docs/tools/house.py`` writes it."""

from pathlib import Path

LAYERS = [
    ("experiments", "protocols of papers' tables, reports, benchmarks"),
    ("doors, cli", "opttree.losses, opttree.datasets and others; the command line"),
    ("estimators", "scikit-learn classes: options with a recipe, and the steps of a fit"),
    ("solvers", "algorithms, their one driver solve(), results, combinators, races"),
    ("problems, export", "the forms of a statement that solvers work on; models for other programs"),
    ("plotting", "pictures of trees, splits, rows, traces"),
    ("statement, explain", "TreeProblem, its losses, penalties and constraints; reasons for an answer"),
    ("model", "trees and forests: structs of arrays, their text and files"),
    ("kernels, tables, methods", "compiled functions on arrays; columns of tables; the list of methods"),
    ("runtime", "threads, clocks, interrupts, devices, options, compilation"),
]
WIDTH, ROW, BOX = 720, 64, 54


def picture() -> str:
    """The whole picture."""
    parts = []
    for k, (name, what) in enumerate(LAYERS):
        y = 8 + k * ROW
        kind = "doors" if k < 3 else "layer"
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
