"""Predictions of a model file of opttree by NumPy alone: python standalone.py model.json rows.csv > predictions.txt."""

import csv
import json
import re
import sys

import numpy as np

GAPS = {"", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}  # unless it is a level
BOOLEANS = {"True": 1.0, "False": 0.0}


def whole(level):  # 3.0 as 3, and -0.0 as 0
    return re.sub(r"^(?:-(?=0(?:\.0)?$))?(-?\d+)(\.0)?$", r"\1", level)


def encode(encoding, rows):  # rows: dictionaries of texts, as csv.DictReader reads them
    Z = np.zeros((len(rows), len(encoding["features"])))
    for j, f in enumerate(encoding["features"]):
        (name, kind), numbers = encoding["columns"][f["column"]][:2], f.get("numbers", {})
        known = {v for g in encoding["features"] if g["column"] == f["column"] for v in g.get("numbers", {})}
        as_level = {"category": whole, "code": float}.get(kind)
        numbers = {as_level(v): number for v, number in numbers.items()}
        for i, row in enumerate(rows if f["kind"] != "unread" else ()):
            if (v := row.get(name)) is None:
                sys.exit(f"the table must have the columns of the training; got none called {name!r}")
            if v in GAPS and v not in known:
                Z[i, j] = f.get("fill", f.get("missing", 1.0))
            elif as_level:
                Z[i, j] = numbers.get(as_level(v), f.get("other", 0.0))
            else:
                try:
                    x = np.datetime64(v, "us").astype(float) / 864e8 if kind == "date" else float(BOOLEANS.get(v, v))
                except ValueError:
                    sys.exit(f"column {name!r} must hold a {kind}, and could not convert {v!r} of row {i}")
                x = x if f["kind"] == "value" else 0.0 * x  # where it is infinite, it is refused below
                Z[i, j] = x if f.get("low") is None else np.clip(x, f["low"], f["high"]) + 0.0 * x
    return Z


def outputs(tree, X):  # (n, K) outputs, or class probabilities
    A, b, kids, B = np.reshape(tree["A"], (-1, tree["n_features"])), tree["b"], tree["children"], len(tree["b"])
    reach = np.ones((len(X), 2 * B + 1))  # probability of each node: 0 or 1 in a hard tree
    for t in range(B):
        gap = b[t] - X @ A[t]
        left = 1 / (1 + np.exp(-tree["gate"] * gap)) if tree.get("mixture") else (gap >= 0) * 1.0
        reach[:, kids[t][0]], reach[:, kids[t][1]] = reach[:, t] * left, reach[:, t] * (1 - left)
    own = np.repeat(np.array(tree["values"])[None], len(X), axis=0)  # (n, leaves, K)
    if np.size(tree["coefs"]):
        own = own + np.einsum("np,lkp->nlk", X, np.reshape(tree["coefs"], (B + 1, -1, tree["n_features"])))
        own = np.clip(own, tree["lower"], tree["upper"]) if "lower" in tree else own
    if tree["link"] == "softmax":
        own = np.exp(own - own.max(axis=2, keepdims=True))
        own /= own.sum(axis=2, keepdims=True)
    return np.einsum("nl,nlk->nk", reach[:, B:], own)


if __name__ == "__main__":
    with open(sys.argv[1]) as file, open(sys.argv[2], encoding="utf-8-sig") as table:
        saved, rows = json.load(file), list(csv.DictReader(table, restval=""))
    model, names, layers = saved["tree"], saved["feature_names"], saved["tree"].get("layers", [[saved["tree"]]])
    for tree, part in ((t, k) for layer in layers for t in layer for k in ("A", "coefs") if isinstance(t[k], dict)):
        P, tree[part] = tree[part], np.zeros((len(tree[part]["start"]) - 1, tree["n_features"]))
        tree[part][np.repeat(np.arange(len(tree[part])), np.diff(P["start"])), np.int_(P["columns"])] = P["numbers"]
    parts = [np.reshape(tree[part], (-1, tree["n_features"])) for t in layers for tree in t for part in ("A", "coefs")]
    used = {int(j) for part in parts for j in np.flatnonzero(part.any(axis=0))}
    kinds = [{"kind": "value" if j in used else "unread", "column": j, "fill": np.nan} for j in range(len(names))]
    X = encode(model.get("encoding", {"columns": [(c, "number") for c in names], "features": kinds}), rows)
    if not (abs(X) <= 1e150).all():
        sys.exit("every number that the model reads must be finite, and there unless it could be missing in training")
    X = np.stack([np.interp(x, *k) for x, k in zip(X.T, model["curves"])], 1) if "curves" in model else X  # noqa: B905
    K, classes, total = model.get("n_outputs", len(layers[0][0]["values"][0])), layers[0][0].get("classes"), []
    for layer in layers:
        answers = [outputs(tree, X) for tree in layer]
        total, X = [*total, *(own[:, :K] for own in answers)], np.hstack([X, *answers])
    mean = np.mean(total, axis=0)  # numbers, or scores of the classes
    label = None if classes is None else np.char.replace(np.array(classes, str), "\n", "\\n")[mean.argmax(axis=1)]
    np.savetxt(sys.stdout, mean if label is None else label, "%s")
