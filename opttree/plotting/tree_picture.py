"""The picture of a tree: boxes that say as much as there is room for, coloured by what the tree answers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from unicodedata import east_asian_width
from weakref import ref

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_rgb
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.offsetbox import AnnotationBbox, DrawingArea
from matplotlib.patches import Circle, Patch, Rectangle
from numpy.typing import NDArray

from opttree.model.text import chooses, gate_text, leaf_text, sides, terms
from opttree.model.tree import Tree
from opttree.runtime.words import number

WIDEST, TALLEST = 24.0, 14.0  # inches of a figure of our own
SMALLEST_FONT = 4.5
INCHES_PER_CHARACTER, INCHES_PER_LINE = 0.0085, 0.0178  # times the font size; of small letters
CAPITAL, BROAD = 1.25, 1.75  # widths of a capital letter and of a Chinese sign, in small letters
GAP = 0.06  # inches between boxes
PLAIN = "#eef1f4"
CLASSES = mpl.colormaps["tab10"]
NUMBERS = mpl.colormaps["RdYlBu_r"]
STRONGEST = 0.6  # share of the full colour in a box
LINE = 1.2  # font sizes from a line to the next
MOST_CLASSES = 10  # in the legend, and in different colours
INK = "#1f2933"


class Told(NamedTuple):
    """What is known beside the tree: the name of the target, and the number of training rows if they count alike."""

    target: str | None = None
    rows: int | None = None


_last_means: tuple[Callable[[], Tree | None], NDArray[np.float64]] = (lambda: None, np.zeros((0, 0)))


@dataclass(frozen=True)
class Box:
    """What is drawn of a node, from the most to the least that it may say; "" is a dot. The last line of a text that
    ends with a new line is empty: a bar stands there.
    """

    texts: tuple[str, ...]
    color: Any
    is_end: bool


def draw_tree(
    tree: Tree,
    names: Sequence[str],
    in_words: bool,
    max_depth: int | None,
    ax: Axes | None,
    font: float,
    told: Told,
) -> Axes:
    """Draw a tree on ``ax``, or on a new figure with room for it, see `opttree.plotting.plot_tree`."""
    places = layout(tree, max_depth)
    boxes = {node: box_of(tree, node, names, in_words, max_depth, told.rows) for node in places}
    width = 1.0 + max(x for x, _y in places.values())
    height = 1.0 + max(-y for _x, y in places.values())
    coloured = tree.n_outputs <= MOST_CLASSES and tells_means(tree)
    named = [] if tree.classes is None or not coloured else [str(name) for name in tree.classes]
    if ax is None:
        ax = _new_axes(boxes, font, width, height, named)
    size = ax.figure.get_size_inches() * (ax.get_position().width, ax.get_position().height)  # type: ignore[union-attr]
    columns, above = _legend_size(named, font, size[0])
    unit = (size - (0.0, above)) / (width, height)
    chosen = fitted_texts(places, boxes, unit, font)
    for node, (x, y) in places.items():
        if boxes[node].is_end:
            continue
        for word, kid in zip(("yes", "no"), map(int, tree.children[node]), strict=True):
            kx, ky = places[kid]
            ax.plot([x, kx], [y, ky], color="#9aa7b4", linewidth=0.9, zorder=1)
            if node == 0 or (chosen[node][0] and chosen[kid][0] and -y < 2):
                ax.text(
                    0.5 * (x + kx), 0.5 * (y + ky), word, fontsize=0.85 * chosen[0][1], color="#66727d", ha="center",
                    va="center", zorder=2,
                    bbox={"facecolor": ax.figure.get_facecolor(), "edgecolor": "none", "pad": 0.8},
                )  # fmt: skip
    for node, (x, y) in places.items():
        text, font_size = chosen[node]
        box = boxes[node]
        edge = "#5d7f45" if box.is_end else "#4c6a87"
        if not text:
            ax.plot([x], [y], "s" if box.is_end else "o", color=box.color, markeredgecolor=edge, markersize=4.5,
                    markeredgewidth=0.5, zorder=3)  # fmt: skip
            continue
        style = {"boxstyle": "round,pad=0.3", "facecolor": box.color, "edgecolor": edge, "linewidth": 0.8}
        x = centre(text, x, font_size, width, unit[0]) / unit[0]
        ax.text(x, y, text, fontsize=font_size, ha="center", va="center", zorder=3, bbox=style, parse_math=False,
                linespacing=LINE, color=INK)  # fmt: skip
        if text.endswith("\n"):
            ax.add_artist(_bar(tree, node, text, font_size, (x, y)))
    notes = [gate_text(tree, 3)] if tree.mixture else []
    if tree.spread is not None and any(f < 0 for f in tree.feature):
        notes.append("sums of features: weight x standard deviation, the largest terms; yes: the sum is low")
    if tree.classes is None and has_bars(tree) and tree.n_branches:
        low, high = (number(float(end), 3) for end in _range_of_leaves(tree))
        notes.append(f"{told.target or 'answer'}: from {low} (left, blue) to {high} (right, red)")
    if named:
        patches = [Patch(color=CLASSES(k), label=name) for k, name in enumerate(named)]
        literal(ax.legend(
            handles=patches, loc="upper left", ncols=columns, fontsize=font, frameon=False, handlelength=1.0,
            borderaxespad=0.2, columnspacing=1.2, labelspacing=0.3,
        ))  # fmt: skip
    ax.set_xlim(-0.5, width - 0.5)
    ax.set_ylim(0.5 - height, 0.5 + above / unit[1])
    ax.axis("off")
    most = max(int(0.98 * size[0] / (INCHES_PER_CHARACTER * 0.8 * font)), 20)
    words = "\n".join("\n".join(textwrap.wrap(note, most)) for note in notes)
    ax.text(0.01, 0.005, words, fontsize=0.8 * font, color="#66727d", transform=ax.transAxes, va="bottom",
            parse_math=False)  # fmt: skip
    return ax


def literal(legend: Legend) -> None:
    """Show the labels of a legend as they are written, without formulas between dollar signs."""
    for label in legend.get_texts():
        label.set_parse_math(False)


def _legend_size(named: Sequence[str], font: float, width: float) -> tuple[int, float]:
    """Columns of a legend on a strip above the tree, and the height of the strip in inches."""
    if not named:
        return 1, 0.0
    each = INCHES_PER_CHARACTER * font * (max(map(length, named)) + 6)
    columns = int(np.clip(width / each, 1, len(named)))
    return columns, 1.35 * font / 72.0 * -(-len(named) // columns) + 0.08


def centre(text: str, column: float, font: float, columns: float, unit: float) -> float:
    """Where the middle of a box stands, in inches from the first column: inside the picture."""
    half = 0.5 * text_size(text, font)[0]
    first, last = half - 0.5 * unit, (columns - 0.5) * unit - half
    return column * unit if first > last else float(np.clip(column * unit, first, last))


def layout(tree: Tree, max_depth: int | None) -> dict[int, tuple[float, float]]:
    """Place of every node that is drawn: its column, one for each end, and minus its depth."""
    places: dict[int, tuple[float, float]] = {}

    def place(node: int, left: float) -> float:
        """Lay out the subtree from column ``left`` on; the first free column after it."""
        depth = -float(tree.node_depth[node])
        if is_end(tree, node, max_depth):
            places[node] = (left, depth)
            return left + 1.0
        kids = [int(c) for c in tree.children[node]]
        end = left
        for kid in kids:
            end = place(kid, end)
        places[node] = (0.5 * (places[kids[0]][0] + places[kids[1]][0]), depth)
        return end

    place(0, 0.0)
    return places


def is_end(tree: Tree, node: int, max_depth: int | None) -> bool:
    """Whether nothing is drawn below a node."""
    return node >= tree.n_branches or (max_depth is not None and bool(tree.node_depth[node] >= max_depth))


def rows_text(share: float, rows: int | None) -> str:
    """Share and, if all rows count alike, number of the rows at a node."""
    if rows is None:
        return f"{percent(share)} of the weight"
    count = round(share * rows)
    return f"{count:,} row{'s' * (count != 1)}, {percent(share)}"


def box_of(
    tree: Tree, node: int, names: Sequence[str], in_words: bool, max_depth: int | None, rows: int | None = None
) -> Box:
    """What to draw of a node."""
    share = "" if tree.share is None else f"\n{rows_text(float(tree.share[node]), rows)}" + "\n" * has_bars(tree)
    if share and tree.classes is None and has_bars(tree) and node < tree.n_branches:
        share = f"\nmean answer {number(float(mean_answers(tree)[node, 0]), 3)}{share}"
    color, end = color_of(tree, node), is_end(tree, node, max_depth)
    if end and node < tree.n_branches:
        below = leaves_below(tree)[node]
        return Box((f"... ({below} leaves){share}", f"... ({below} leaves)", f"({below})", ""), color, end)
    if end:
        texts = [_lines(answer_text(tree, node, names, most)) for most in (3, 2, 1)]
        short = short_answer(tree, node)
        return Box((texts[0] + share, *texts, f"{short}{share}", short, ""), color, end)
    texts = [split_text(tree, node, names, most, in_words) for most in (3, 2, 1)]
    j = int(np.argmax(np.abs(tree.A[node] if tree.spread is None else tree.A[node] * tree.spread)))
    name = str(names[j])
    if in_words and tree.encoding is not None:
        name = tree.encoding.columns[tree.encoding.features[j].column].name
    lines = re.sub(r" (?=<= |in )", "\n", texts[2])
    return Box((texts[0] + share, texts[0], texts[1], texts[2], lines, name, ""), color, end)


def split_text(tree: Tree, node: int, names: Sequence[str], most: int, in_words: bool) -> str:
    """The condition of a branch; of a sum of features the largest terms, weight x deviation if that is known."""
    j = int(tree.feature[node])
    if j >= 0 or tree.spread is None:
        text = sides(tree, node, names, 3, most, in_words=in_words)[0]
        return _wrapped(text) if j >= 0 else _lines(text)
    sizes = tree.A[node] * tree.spread
    largest = np.abs(sizes).max()
    if largest == 0.0:
        return _lines(f"{terms(tree.A[node], names, 3, most)} <= {number(tree.b[node], 3)}")
    chosen = np.sort(np.argsort(-np.abs(sizes), kind="stable")[:most])
    chosen = chosen[sizes[chosen] != 0.0]
    rows = [f"{sizes[k] / largest:+.2f} {names[k]}" for k in chosen]
    more = np.count_nonzero(sizes) - len(chosen)
    return "\n".join([*rows, *([f"+ {more} more"] if more else [])])


def has_bars(tree: Tree) -> bool:
    """Whether leaves tell shares of few classes, or means of one number: constant ones, of which a row has one."""
    numbers = tree.n_outputs == 1 if tree.classes is None else tree.n_outputs <= MOST_CLASSES
    return numbers and not tree.linear_leaves and not tree.mixture and bool(np.isfinite(tree.values).all())


def percent(share: float) -> str:
    """A share as people write it: 65 %, .22 %, and 100 % only for all."""
    whole = 100.0 * share
    if 1e-9 <= abs(share) < 0.0005:
        return "< 0.1 %"
    if min(abs(share), abs(share - 1.0)) < 1e-9:  # none or all, to rounding
        return f"{whole:.0f} %"
    return f"{min(whole, 99.0):.0f} %" if whole >= 9.5 else f"{whole:.2g} %"


def answer_text(tree: Tree, node: int, names: Sequence[str], most: int) -> str:
    """What a leaf answers: a class and how sure it is, a number, or its equation."""
    values = tree.kept_leaves[0][node - tree.n_branches]
    if tree.classes is None or tree.linear_leaves or chooses(tree):
        return leaf_text(tree, node, names, 3, most)
    k = int(np.argmax(values))
    return f"{tree.classes[k]}: {percent(float(values[k]))}"


def _bar(tree: Tree, node: int, text: str, font: float, place: tuple[float, float]) -> AnnotationBbox:
    """The shares of the classes at a node; of a number its place between the lowest and the highest leaf."""
    lines = text.split("\n")
    wide, tall = 0.5 * font * max(map(length, lines)), 0.42 * font
    area = DrawingArea(wide, tall)
    mean = mean_answers(tree)
    if tree.classes is not None:
        shares = np.clip(mean[node], 0.0, None)
        ends = np.concatenate([[0.0], np.cumsum(shares)]) * wide / max(float(shares.sum()), 1e-300)
        for k, (left, right) in enumerate(pairwise(ends)):
            area.add_artist(Rectangle((left, 0.0), right - left, tall, color=CLASSES(k % 10), linewidth=0.0))
    else:
        low, high = _range_of_leaves(tree)
        at = float(Normalize(low, high)(mean[node, 0])) if high > low else 0.5
        at = 0.5 * tall + at * (wide - tall)  # the whole dot stands on the line
        area.add_artist(Line2D([0.0, wide], [0.5 * tall] * 2, color="#9aa7b4", linewidth=0.8))
        area.add_artist(Circle((at, 0.5 * tall), 0.5 * tall, color="#33485c"))
    below = (0.0, -0.5 * LINE * font * (len(lines) - 1))
    return AnnotationBbox(area, place, below, boxcoords="offset points", frameon=False, pad=0.0, zorder=4)


def _range_of_leaves(tree: Tree) -> tuple[float, float]:
    """The lowest and the highest mean of a leaf."""
    leaves = mean_answers(tree)[tree.n_branches :, 0]
    return float(leaves.min()), float(leaves.max())


def short_answer(tree: Tree, node: int) -> str:
    """The answer of a leaf in one short word."""
    values = tree.values[node - tree.n_branches]
    if not tells_means(tree):
        return ""
    if tree.classes is not None:
        return str(tree.classes[int(np.argmax(values))])
    if tree.linear_leaves:
        return "" if tree.n_outputs > 1 else number(mean_answers(tree)[node, 0], 3)
    return number(float(values[0]), 3) if tree.n_outputs == 1 else ""


def tells_means(tree: Tree) -> bool:
    """Whether a leaf has one answer, or a range of its own: an intercept is the answer to a row of zeros alone."""
    if not tree.linear_leaves:
        return True
    if tree.classes is not None or tree.lower is None:
        return False
    low, high = tree.leaf_arrays[2], tree.leaf_arrays[3]
    return bool(np.isfinite(low + high).all() and (np.ptp(low, axis=0).any() or np.ptp(high, axis=0).any()))


def mean_answers(tree: Tree) -> NDArray[np.float64]:
    """(2 B + 1, K) what the leaves at and below each node answer in the mean, weighted by share; classes by
    probability. Linear leaves of numbers count as the middle of their range, see `tells_means`. Kept for the last tree,
    since every box asks for it.
    """
    global _last_means
    whose, means = _last_means
    if whose() is not tree:
        means = _mean_answers(tree)
        _last_means = ref(tree), means
    return means


def _mean_answers(tree: Tree) -> NDArray[np.float64]:
    leaf = tree.values if tree.classes is None else np.array(tree._probabilities(tree.values))
    if tree.linear_leaves and tree.lower is not None and tree.classes is None:
        middle = 0.5 * (tree.leaf_arrays[2] + tree.leaf_arrays[3])
        leaf = np.where(np.isfinite(middle), middle, leaf)
    mean = np.zeros((tree.n_nodes, tree.n_outputs))
    mean[tree.n_branches :] = leaf
    mass = np.ones(tree.n_nodes) if tree.share is None else np.asarray(tree.share) + 1e-12
    for t in range(tree.n_branches - 1, -1, -1):
        mean[t] = np.average(mean[tree.children[t]], axis=0, weights=mass[tree.children[t]])
    return mean


def color_of(tree: Tree, node: int) -> Any:
    """Colour of a box: of the likeliest class, the paler the less sure; of a number by its place among the leaves."""
    mean = mean_answers(tree)
    if not tells_means(tree):
        return PLAIN
    if tree.classes is not None:
        p = np.clip(mean[node], 0.0, None)
        k, K = int(np.argmax(p)), tree.n_outputs
        sure = max((float(p[k]) / max(float(p.sum()), 1e-300) - 1.0 / K) / max(1.0 - 1.0 / K, 1e-9), 0.0)
        return _mixed(to_rgb(CLASSES(k % 10)), STRONGEST * min(sure, 1.0))
    if tree.n_outputs > 1:
        return PLAIN
    leaves = mean[tree.n_branches :, 0]
    if np.ptp(leaves) <= 0.0:
        return PLAIN
    return _mixed(to_rgb(NUMBERS(Normalize(leaves.min(), leaves.max())(mean[node, 0]))), STRONGEST)


def _mixed(color: tuple[float, float, float], share: float) -> tuple[float, ...]:
    """A colour on white."""
    return tuple(1.0 - share * (1.0 - part) for part in color)


def leaves_below(tree: Tree) -> NDArray[np.int64]:
    """(2 B + 1,) number of leaves at and below each node."""
    below = np.ones(tree.n_nodes, np.int64)
    for t in range(tree.n_branches - 1, -1, -1):
        below[t] = below[tree.children[t]].sum()
    return below


def _lines(text: str) -> str:
    """One term per line, and long sets of categories in several."""
    text = re.sub(r" (?=[+-] |<= )|(?<=;) ", "\n", text)
    return "\n".join(_wrapped(line) for line in text.split("\n"))


def _wrapped(line: str, most: int = 26) -> str:
    whole = re.sub(r"(?<=\d) (?=%|more\b|\d)", "\N{NO-BREAK SPACE}", line)  # 12 %, 3 more, times of days
    lines = textwrap.wrap(whole, most, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def length(line: str) -> float:
    """Width of a line, in small letters."""
    broad = sum(east_asian_width(sign) in "WF" for sign in line)
    return len(line) + (CAPITAL - 1.0) * sum(map(str.isupper, line)) + (BROAD - 1.0) * broad


def text_size(text: str, font: float) -> tuple[float, float]:
    """Width and height in inches of a text in its box."""
    lines = text.split("\n")
    return (
        INCHES_PER_CHARACTER * font * (max(map(length, lines)) + 2),
        INCHES_PER_LINE * font * (len(lines) + 1.2),
    )


def _new_axes(boxes: dict[int, Box], font: float, width: float, height: float, named: Sequence[str]) -> Axes:
    """Axes of a new figure with room for the whole texts of all boxes, within limits."""
    sizes = [text_size(box.texts[0], font) for box in boxes.values()]
    ends = [text_size(box.texts[0], font) for box in boxes.values() if box.is_end]
    wide = max(max(s[0] for s in ends) * width, max(s[0] for s in sizes)) + GAP * width
    tall = (max(s[1] for s in sizes) + 0.3) * height
    wide = float(np.clip(wide, 4.0, WIDEST))
    tall += _legend_size(named, font, wide)[1]
    figure = plt.figure(figsize=(wide, float(np.clip(tall, 2.0, TALLEST))))
    return figure.add_axes((0.0, 0.0, 1.0, 1.0))


def fitted_texts(
    places: dict[int, tuple[float, float]], boxes: dict[int, Box], unit: NDArray[np.float64], font: float
) -> dict[int, tuple[str, float]]:
    """The text of every node and its font size: in each level of ends or branches the most detailed texts that do not
    overlap, and of these the largest font.

    ``unit`` : inches of one column and of one level.
    """
    chosen: dict[int, tuple[str, float]] = {}
    fonts = [font * f for f in (1.0, 0.85, 0.7, 0.6) if font * f >= SMALLEST_FONT] or [font]
    for depth in sorted({y for _x, y in places.values()}, reverse=True):
        level = sorted((node for node in places if places[node][1] == depth), key=lambda node: places[node][0])
        kinds = {True: [n for n in level if boxes[n].is_end], False: [n for n in level if not boxes[n].is_end]}
        options = [
            (detail, size)
            for detail in range(max(len(boxes[n].texts) for n in level))
            for size in (fonts if detail < 7 else fonts[:1])
        ]
        taken = next(
            ((d, size) for d, size in options if _fits(level, places, boxes, d, size, unit)),
            (len(boxes[level[0]].texts), font),
        )
        for nodes in kinds.values():
            for n in nodes:
                texts = boxes[n].texts
                chosen[n] = (texts[min(taken[0], len(texts) - 1)], taken[1])
    return chosen


def _fits(
    level: Sequence[int],
    places: dict[int, tuple[float, float]],
    boxes: dict[int, Box],
    detail: int,
    font: float,
    unit: NDArray[np.float64],
) -> bool:
    """Whether the texts of one level stand beside one another, and within their level."""
    end, columns = -np.inf, 1.0 + max(x for x, _y in places.values())
    for n in level:
        text = boxes[n].texts[min(detail, len(boxes[n].texts) - 1)]
        wide, tall = text_size(text, font) if text else (0.07, 0.07)
        x = centre(text, places[n][0], font, columns, unit[0])
        if wide > columns * unit[0] or x - 0.5 * wide < end or tall > 0.86 * unit[1]:
            return False
        end = x + 0.5 * wide + 0.4 * GAP
    return True
