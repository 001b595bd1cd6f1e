"""C: a model as one header and one source file of C99, without allocation or dependencies but libm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opttree.export.c_table import Constants, Table
from opttree.export.columns import as_read
from opttree.export.record import Exporter
from opttree.model.files import as_saved
from opttree.model.forest import TINY_SHARE, Forest
from opttree.model.structure import used_features
from opttree.model.tree import Tree
from opttree.runtime.escape import c_comment, c_text
from opttree.runtime.files import whole_file
from opttree.tables.curves import Curves
from opttree.tables.encoding import Unread
from opttree.tables.numbers import LARGEST

REAL = {"float64": "double", "float32": "float"}


def to_c(
    model: Any, folder: str | Path, *, name: str = "model", dtype: Literal["float64", "float32"] = "float64"
) -> tuple[Path, Path]:
    """Write ``name.h``, ``name.c`` and a Makefile to a folder, ``name.mk`` where it has another Makefile.

    The functions, with NAME for ``name`` and P features, K outputs:

    - ``void NAME_outputs(const REAL *x, REAL *out)``: K numbers, or class scores, of P features;
    - ``void NAME_predict(const REAL *x, REAL *out)``: K numbers, or class probabilities;
    - ``int NAME_class(const REAL *x)``: the number of the likeliest class, a place in ``NAME_classes``, or -1;
    - ``void NAME_predict_rows(const REAL *x, size_t n, REAL *out)``: `NAME_predict` of n rows in a row;
    - ``void NAME_encode(const NAME_row *row, REAL *x)``, for a model with the encoding of a table: the features of a
      row of the columns that it reads; a number is missing as NaN, a text as a null pointer or "".

    Where `predict` would refuse a row, all outputs are NaN and the class is -1: for infinity, and for NaN in a model
    without an encoding. Categories of ``categorical_features`` whose levels are numbers are numbers here, too.

    Compiles with ``-std=c99 -Wall -Wextra -Werror -pedantic``; all numbers are constants and no memory is allocated.
    ``make`` makes a shared library of it. It answers as `predict` does, but for rounding.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    folder : path-like
        An existing folder.
    name : str, default "model"
        Prefix of the names, an identifier of C.
    dtype : {"float64", "float32"}, default "float64"
        "float64" for double; "float32" for float, where rows within the rounding of a threshold may take its other
        side.

    Returns
    -------
    tuple[pathlib.Path, pathlib.Path]
        Paths of the header and the source.

    See Also
    --------
    opttree.to_onnx : for ONNX runtimes
    to_sql : for databases

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> import tempfile
    >>> header, source = opttree.export.to_c(model, tempfile.mkdtemp())
    >>> header.name, source.name
    ('model.h', 'model.c')
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"name must be an identifier of C; got {name!r}")
    if dtype not in REAL:
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}")
    place = Path(folder)
    if not place.is_dir():
        raise ValueError(f"folder must be an existing folder; got {str(folder)!r}")
    source = Source(as_read(as_saved(model, curves=True).tree), name, REAL[dtype])
    files = {f"{name}.h": source.header(), f"{name}.c": source.body(), rules_file(place, name): rules(name)}
    for file_name, text in files.items():
        with whole_file(place / file_name) as file:
            file.write_text(text, encoding="utf-8")
    return place / f"{name}.h", place / f"{name}.c"


MAKEFILE = """CFLAGS ?= -O2 -std=c99 -Wall -Wextra -Werror -pedantic

libNAME.so: NAME.c NAME.h
\t$(CC) $(CFLAGS) -fPIC -shared -o $@ NAME.c -lm

NAME.o: NAME.c NAME.h
\t$(CC) $(CFLAGS) -c -o $@ NAME.c

clean:
\trm -f libNAME.so NAME.o

.PHONY: clean
"""


def rules(name: str) -> str:
    """The text of the Makefile of a model."""
    return MAKEFILE.replace("NAME", name)


def rules_file(place: Path, name: str) -> str:
    """The name of that file: what others wrote stays.

    Raises
    ------
    ValueError
        If others wrote files of both names.
    """
    for made in (place / "Makefile", place / f"{name}.mk"):
        if not made.exists() or (made.is_file() and made.read_bytes() == rules(name).encode()):
            return made.name
    raise ValueError(f"name must be one whose {name}.mk is not there yet, beside a Makefile; got {name!r}")


class Source(Constants):
    """The text of the files of one model."""

    def __init__(self, model: Tree | Forest, name: str, real: str) -> None:
        super().__init__(real)
        self.name, self.model = name, model
        self.table = None if model.encoding is None else Table(model.encoding, name, real)
        self.layers = ((model,),) if isinstance(model, Tree) else model.layers
        self.trees = [tree for layer in self.layers for tree in layer]
        widths = [sum(tree.n_outputs for tree in layer) for layer in self.layers[:-1]]
        self.width = model.n_features + sum(widths)
        self.soft = any(tree.mixture for tree in self.trees)
        self.linear = any(tree.linear_leaves for tree in self.trees)
        self.bounded = any(tree.lower is not None for tree in self.trees)
        self.per_tree = model.classes is not None and not (isinstance(model, Forest) and model.averages_outputs)
        self.most_outputs = max(tree.n_outputs for tree in self.trees)
        boosted = isinstance(model, Forest) and model.link == "softmax"
        alone = isinstance(model, Tree) or self.per_tree
        self.softmax = any(tree.link == "softmax" and (tree.mixture or alone) for tree in self.trees)
        self.exp = self.soft or boosted or self.softmax
        self.read = np.flatnonzero(used_features(model))
        self.curves = model.curves if isinstance(model, Forest) and self.read.size else None

    # ---- the header -----------------------------------------------------------------------------------------------

    def header(self) -> str:
        """The header file."""
        name, real = self.name, self.real
        guard = f"{name.upper()}_H"
        lines = [
            f"/* A model of opttree: {self.model.n_features} features, {self.model.n_outputs} outputs. */",
            f"#ifndef {guard}", f"#define {guard}", "", "#include <stddef.h>", "",
            f"#define {name.upper()}_FEATURES {self.model.n_features}",
            f"#define {name.upper()}_OUTPUTS {self.model.n_outputs}", "",
        ]  # fmt: skip
        if self.table is not None:
            lines += self.table.structure()
        features = () if self.model.encoding is None else self.model.encoding.features
        hidden = {j for j, feature in enumerate(features) if isinstance(feature, Unread)}
        names = ", ".join("(not read)" if j in hidden else c_comment(n) for j, n in enumerate(self.model.names()))
        lines += [
            f"/* The outputs, or class scores, of the features: {names}. */",
            f"void {name}_outputs(const {real} *x, {real} *out);", "",
            "/* The outputs, or class probabilities. */",
            f"void {name}_predict(const {real} *x, {real} *out);", "",
            f"void {name}_predict_rows(const {real} *x, size_t n, {real} *out);", "",
        ]  # fmt: skip
        if self.model.classes is not None:
            lines += [
                f"extern const char *const {name}_classes[{self.model.n_outputs}];", "",
                "/* The number of the likeliest class, -1 where an output is NaN. */",
                f"int {name}_class(const {real} *x);", "",
            ]  # fmt: skip
        return "\n".join([*lines, "#endif", ""])

    # ---- the source -----------------------------------------------------------------------------------------------

    def body(self) -> str:
        """The source file."""
        includes = [f'#include "{self.name}.h"', ""]
        if self.exp or self.read.size:
            includes.append("#include <math.h>")
        if self.table is not None and self.table.has_text:
            includes.append("#include <string.h>")
        parts = ["\n".join(includes), self.tables()]
        if self.table is not None:
            parts.append(self.table.encode())
        parts += [self.leaf_scores(), self.walk()]
        if self.soft:
            parts.append(self.mixed())
        if self.curves is not None:
            parts.append(self.on_curves(self.curves))
        parts += [self.answer(), self.outputs(), self.predict()]
        return "\n\n".join(part.strip() for part in parts if part) + "\n"

    def tables(self) -> str:
        """The numbers of all trees, one after another."""
        kids: list[Any] = []
        starts, rows = [0], [0]
        table: list[str] = []
        empty: list[list[Any]] = [[] for _ in range(7)]
        places, weights, values, coef_places, coefs, lower, upper = empty
        for tree in self.trees:
            first = (sum(len(k) for k in kids), len(values), len(rows) - 1)
            kids.append(tree.children)
            for a in tree.A:
                used = np.flatnonzero(a)
                places += list(used)
                weights += list(a[used])
                starts.append(len(places))
            leaf = tree.leaf_arrays
            values += list(leaf[0].ravel())
            for row in (
                leaf[1].reshape(tree.values.size, -1) if tree.linear_leaves else [np.zeros(0)] * tree.values.size
            ):
                used = np.flatnonzero(row)
                coef_places += list(used)
                coefs += list(row[used])
                rows.append(len(coef_places))
            bound = tree.lower is not None and tree.linear_leaves
            lower += list(leaf[2].ravel()) if bound else [-np.inf] * tree.values.size
            upper += list(leaf[3].ravel()) if bound else [np.inf] * tree.values.size
            mode = int(tree.mixture)
            entry = (
                f"{first[0]}, {first[1]}, {tree.n_branches}, {tree.n_outputs}, {int(tree.link == 'softmax')}, {mode}"
            )
            table.append(f"{{{entry}, {self.number(float(tree.gate or 0.0))}}}")
        texts = [
            "typedef struct {\n    int branch, value, n_branches, n_outputs, softmax, mixture;\n"
            f"    {self.real} gate;\n}} tree_t;",
            f"static const tree_t trees[{len(table)}] = {{\n    " + ",\n    ".join(table) + "\n};",
            self.array("int", "feature_read", self.read) if self.read.size else "",
            self.array("int", "children", np.concatenate(kids) if kids else []),
            self.array("int", "weight_start", starts),
            self.array("int", "weight_feature", places),
            self.array(self.real, "weight", weights),
            self.array(self.real, "threshold", np.concatenate([tree.b for tree in self.trees])),
            self.array(self.real, "value", values),
        ]
        if self.linear:
            texts += [
                self.array("int", "coef_start", rows),
                self.array("int", "coef_feature", coef_places),
                self.array(self.real, "coef", coefs),
            ]
        if self.bounded:
            texts += [self.array(self.real, "lower", lower), self.array(self.real, "upper", upper)]
        if self.model.classes is not None:
            labels = ", ".join(c_text(str(label)) for label in self.model.classes)
            texts.append(f"const char *const {self.name}_classes[{self.model.n_outputs}] = {{{labels}}};")
        return "\n\n".join(text for text in texts if text)

    def leaf_scores(self) -> str:
        """The outputs of one leaf."""
        inner = f"        {self.real} s = value[v];\n"
        if self.linear:
            inner += (
                "        for (j = coef_start[v]; j < coef_start[v + 1]; j++)\n"
                "            s += coef[j] * x[coef_feature[j]];\n"
            )
        if self.bounded:
            inner += "        if (s < lower[v])\n            s = lower[v];\n"
            inner += "        if (s > upper[v])\n            s = upper[v];\n"
        declared = "    int k, j;\n" if self.linear else "    int k;\n    (void)x;\n"
        return f"""/* The outputs of a leaf, counted from 0. */
static void leaf_outputs(const tree_t *t, int leaf, const {self.real} *x, {self.real} *out)
{{
{declared}    for (k = 0; k < t->n_outputs; k++) {{
        int v = t->value + leaf * t->n_outputs + k;
{inner}        out[k] = s;
    }}
}}"""

    def walk(self) -> str:
        """The value of a split, softmax, and the leaf of a row."""
        real = self.real
        text = f"""static {real} split_value(int branch, const {real} *x)
{{
    int j;
    {real} s = {self.number(0.0)};
    for (j = weight_start[branch]; j < weight_start[branch + 1]; j++)
        s += weight[j] * x[weight_feature[j]];
    return s;
}}"""
        if self.softmax:
            exp = "exp" if real == "double" else "expf"
            text += f"""

static void softmax({real} *p, int n)
{{
    int k;
    {real} top = p[0], total = {self.number(0.0)};
    for (k = 1; k < n; k++)
        if (p[k] > top)
            top = p[k];
    for (k = 0; k < n; k++) {{
        p[k] = {exp}(p[k] - top);
        total += p[k];
    }}
    for (k = 0; k < n; k++)
        p[k] /= total;
}}"""
        if any(not tree.mixture for tree in self.trees):
            text += f"""

/* The leaf of a row, counted from 0. */
static int leaf_of(const tree_t *t, const {real} *x)
{{
    int node = 0;
    while (node < t->n_branches) {{
        int branch = t->branch + node;
        node = children[2 * branch + (split_value(branch, x) <= threshold[branch] ? 0 : 1)];
    }}
    return node - t->n_branches;
}}"""
        return text

    def mixed(self) -> str:
        """The outputs of a soft tree."""
        real, most = self.real, max(tree.n_nodes for tree in self.trees if tree.mixture)
        exp = "exp" if real == "double" else "expf"
        one = self.number(1.0)
        soft = self.soft and any(tree.mixture and tree.link == "softmax" for tree in self.trees)
        normal = "        if (t->softmax)\n            softmax(own, t->n_outputs);\n" if soft else ""
        return f"""/* The outputs of a soft tree: all leaves, weighted by their probabilities. */
static void mixture(const tree_t *t, const {real} *x, {real} *out)
{{
    {real} share[{most}], own[{self.most_outputs}];
    int node, leaf, k;
    share[0] = {one};
    for (node = 0; node < t->n_branches; node++) {{
        int branch = t->branch + node;
        {real} gap = t->gate * (threshold[branch] - split_value(branch, x));
        share[children[2 * branch]] = share[node] * ({one} / ({one} + {exp}(-gap)));
        share[children[2 * branch + 1]] = share[node] * ({one} / ({one} + {exp}(gap)));
    }}
    for (k = 0; k < t->n_outputs; k++)
        out[k] = {self.number(0.0)};
    for (leaf = 0; leaf <= t->n_branches; leaf++) {{
        leaf_outputs(t, leaf, x, own);
{normal}        for (k = 0; k < t->n_outputs; k++)
            out[k] += share[t->n_branches + leaf] * own[k];
    }}
}}"""

    def answer(self) -> str:
        """The outputs of one tree of any kind."""
        hard = any(not tree.mixture for tree in self.trees)
        lines = ["static void tree_outputs(const tree_t *t, const REAL *x, REAL *out)", "{"]
        if self.soft and hard:
            lines += ["    if (t->mixture) {", "        mixture(t, x, out);", "        return;", "    }"]
        if hard:
            lines.append("    leaf_outputs(t, leaf_of(t, x), x, out);")
            scores = any(tree.link == "softmax" and not tree.mixture for tree in self.trees)
            if self.per_tree and scores and not isinstance(self.model, Tree):
                lines += ["    if (t->softmax)", "        softmax(out, t->n_outputs);"]
        else:
            lines.append("    mixture(t, x, out);")
        return "\n".join([*lines, "}"]).replace("REAL", self.real)

    def outputs(self) -> str:
        """The function that gives the outputs: those of the trees, or NaN where a number is not finite."""
        real, K = self.real, self.model.n_outputs
        start = f"void {self.name}_outputs(const {real} *x, {real} *out)\n{{\n"
        if not self.read.size:
            return f"{self.whole()}\n\n{start}    whole(x, out);\n}}"
        P, most = self.model.n_features, self.number(LARGEST)
        given, curved = "x", ""
        if self.curves is not None:
            given, curved = "z", f"    {real} z[{P}];\n"
        on = "    on_curves(x, z);\n" if curved else ""
        return f"""{self.whole()}

{start}    {real} doubt = {self.number(0.0)};
    int k;
{curved}{on}    whole({given}, out);
    for (k = 0; k < {self.read.size}; k++)
        if (!(x[feature_read[k]] <= {most} && x[feature_read[k]] >= -{most}))
            doubt = NAN; /* it is NaN, infinite or larger than any in training */
    for (k = 0; k < {K}; k++)
        out[k] += doubt;
}}"""

    def on_curves(self, curves: Curves) -> str:
        """The function that gives the features on their curves; those that are not read are 0."""
        real = self.real
        kept = [curves.knots[int(j)] for j in self.read]
        first = np.cumsum([0, *(at.size for at, _to in kept)])
        arrays = [
            self.array("int", "curve_first", first),
            self.array(real, "curve_at", np.concatenate([at for at, _to in kept])),
            self.array(real, "curve_to", np.concatenate([to for _at, to in kept])),
        ]
        return (
            "\n\n".join(arrays)
            + f"""

/* The features on their curves, which are linear between knots. */
static void on_curves(const {real} *x, {real} *z)
{{
    int k, low, high, middle;
    for (k = 0; k < {self.model.n_features}; k++)
        z[k] = {self.number(0.0)};
    for (k = 0; k < {self.read.size}; k++) {{
        {real} v = x[feature_read[k]];
        low = curve_first[k];
        high = curve_first[k + 1] - 1;
        if (!(v > curve_at[low])) {{
            z[feature_read[k]] = curve_to[low];
            continue;
        }}
        if (v >= curve_at[high]) {{
            z[feature_read[k]] = curve_to[high];
            continue;
        }}
        while (high - low > 1) {{
            middle = (low + high) / 2;
            if (v >= curve_at[middle])
                low = middle;
            else
                high = middle;
        }}
        z[feature_read[k]] =
            curve_to[low] + (curve_to[high] - curve_to[low]) / (curve_at[high] - curve_at[low]) * (v - curve_at[low]);
    }}
}}"""
        )

    def whole(self) -> str:
        """The function that gives the outputs of the whole model for finite numbers."""
        real, K = self.real, self.model.n_outputs
        if isinstance(self.model, Tree):
            return f"static void whole(const {real} *x, {real} *out)\n{{\n    tree_outputs(&trees[0], x, out);\n}}"
        if len(self.layers) == 1:
            return f"""static void whole(const {real} *x, {real} *out)
{{
    {real} own[{self.most_outputs}];
    int t, k;
    for (k = 0; k < {K}; k++)
        out[k] = {self.number(0.0)};
    for (t = 0; t < {len(self.trees)}; t++) {{
        tree_outputs(&trees[t], x, own);
        for (k = 0; k < {K}; k++)
            out[k] += own[k];
    }}
    for (k = 0; k < {K}; k++)
        out[k] /= {self.number(float(len(self.trees)))};
}}"""
        sizes = ", ".join(str(len(layer)) for layer in self.layers)
        return f"""static void whole(const {real} *x, {real} *out)
{{
    static const int sizes[{len(self.layers)}] = {{{sizes}}};
    {real} row[{self.width}], own[{self.most_outputs}];
    int layer, i, k, t = 0, width = {self.model.n_features}, next;
    for (k = 0; k < {self.model.n_features}; k++)
        row[k] = x[k];
    for (k = 0; k < {K}; k++)
        out[k] = {self.number(0.0)};
    for (layer = 0; layer < {len(self.layers)}; layer++) {{
        next = width;
        for (i = 0; i < sizes[layer]; i++, t++) {{
            tree_outputs(&trees[t], row, own);
            for (k = 0; k < {K}; k++)
                out[k] += own[k];
            if (layer < {len(self.layers) - 1})
                for (k = 0; k < trees[t].n_outputs; k++)
                    row[next++] = own[k];
        }}
        width = next;
    }}
    for (k = 0; k < {K}; k++)
        out[k] /= {self.number(float(len(self.trees)))};
}}"""

    def predict(self) -> str:
        """The functions that give numbers, probabilities and classes."""
        real, name, K, model = self.real, self.name, self.model.n_outputs, self.model
        steps, declared = "", ""
        if model.classes is not None and isinstance(model, Tree):
            if not model.mixture and model.link == "softmax":
                steps = f"    softmax(out, {K});\n"
        elif model.classes is not None and not model.is_proper:  # type: ignore[union-attr]
            declared = f"    int k;\n    {real} total = {self.number(0.0)};\n"
            if model.link == "softmax":
                exp = "exp" if real == "double" else "expf"
                declared += f"    {real} top;\n"
                steps += (
                    f"    top = out[0];\n    for (k = 1; k < {K}; k++)\n"
                    "        if (out[k] > top)\n            top = out[k];\n"
                    f"    for (k = 0; k < {K}; k++)\n        out[k] = {exp}(out[k] - top);\n"
                )
            zero, tiny = self.number(0.0), self.number(TINY_SHARE)
            steps += (
                f"    for (k = 0; k < {K}; k++) {{\n        out[k] = (out[k] < {zero} ? {zero} : out[k]) + {tiny};\n"
                "        total += out[k];\n    }\n"
                f"    for (k = 0; k < {K}; k++)\n        out[k] /= total;\n"
            )
        text = f"""void {name}_predict(const {real} *x, {real} *out)
{{
{declared}    {name}_outputs(x, out);
{steps}}}

void {name}_predict_rows(const {real} *x, size_t n, {real} *out)
{{
    size_t i;
    for (i = 0; i < n; i++)
        {name}_predict(x + i * {model.n_features}, out + i * {K});
}}"""
        if model.classes is None:
            return text
        return f"""{text}

int {name}_class(const {real} *x)
{{
    {real} out[{K}];
    int k, best = 0;
    {name}_outputs(x, out);
    if (out[0] != out[0])
        return -1;
    for (k = 1; k < {K}; k++)
        if (out[k] > out[best])
            best = k;
    return best;
}}"""


def _write(model: Any, path: Path, options: Any) -> None:
    make = rules_file(path.resolve().parent, path.stem)
    header, source = to_c(model, path.resolve().parent, name=path.stem, dtype=options.dtype)
    print(f"written to {source.name}, {header.name} and {make} in {source.parent}")


EXPORTER = Exporter("c", (".c",), _write, beside=True)
