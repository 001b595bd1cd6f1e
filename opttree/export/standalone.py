"""Predictions of a model file of opttree by NumPy alone: python standalone.py model.json rows.csv > predictions.txt."""

import csv
import json
import sys

import numpy as np

GAPS = ("", "NA", "N/A", "NaN", "nan", "null", "None")


def encode(encoding, rows):  # rows: dictionaries of texts, as csv.DictReader reads them
    Z = np.empty((len(rows), len(encoding["features"])))
    for j, f in enumerate(encoding["features"]):
        (name, kind), numbers = encoding["columns"][f["column"]], f.get("numbers", {})
        for i, v in enumerate("" if row[name] in GAPS else row[name] for row in rows):
            if f["kind"] != "value":
                known = numbers.get(v, numbers.get(v.removesuffix(".0"), f.get("other", 0.0)))
                Z[i, j] = f.get("missing", 1.0) if v == "" else known
                continue
            known = {"": f["fill"], "True": 1.0, "False": 0.0}.get(v, v)
            known = float(known if kind != "date" or v == "" else np.datetime64(v, "us").astype(float) / 864e8)
            Z[i, j] = known if v == "" or f["low"] is None else np.clip(known, f["low"], f["high"])
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
        own = own + np.einsum("np,lkp->nlk", X, np.array(tree["coefs"]))
        own = np.clip(own, tree["lower"], tree["upper"]) if "lower" in tree else own
    if tree["link"] == "softmax":
        own = np.exp(own - own.max(axis=2, keepdims=True))
        own /= own.sum(axis=2, keepdims=True)
    return np.einsum("nl,nlk->nk", reach[:, B:], own)


if __name__ == "__main__":
    with open(sys.argv[1]) as file, open(sys.argv[2], encoding="utf-8") as table:
        whole, rows = json.load(file), list(csv.DictReader(table))
    model, names = whole["tree"], whole["feature_names"]
    layers, plain = model.get("layers", [[model]]), "encoding" not in model
    X = np.array([[float(r[c]) for c in names] for r in rows]) if plain else encode(model["encoding"], rows)
    K, classes, total = model.get("n_outputs", len(layers[0][0]["values"][0])), layers[0][0].get("classes"), []
    for layer in layers:
        answers = [outputs(tree, X) for tree in layer]
        total, X = [*total, *(own[:, :K] for own in answers)], np.hstack([X, *answers])
    mean = np.mean(total, axis=0)  # numbers, or scores of the classes
    np.savetxt(sys.stdout, mean if classes is None else np.array(classes)[mean.argmax(axis=1)], "%s")
