"""What leaves the toolkit holds no training row: no key, no level of a few rows, and nothing of unread columns."""

import argparse
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import opttree
from opttree.export.record import exporters
from opttree.model.files import as_saved
from tests.conftest import thinned
from tests.export_models import MODELS

OPTIONS = argparse.Namespace(dtype="float64", table="rows", keep="")
SINGLE = {"dot", "html", "rules", "treelite"}  # formats that do not take all models
N = 240


def table():
    """A key, texts of 1 to 4 rows each, a category that counts, with rare levels, one that does not, and numbers."""
    rng = np.random.default_rng(0)
    few = np.repeat([f"useless{k:03d}" for k in range(N)], 1 + np.arange(N) % 4)[:N]
    city = rng.choice(["Bonn", "Ulm", "Trier"], N).astype(object)
    city[:20] = [f"rareplace{k // 2:02d}" for k in range(20)]
    return pd.DataFrame(
        {
            "key": [f"KEY{i:06d}" for i in range(N)],
            "few": rng.permutation(few),
            "age": rng.normal(40.0, 9.0, N),
            "city": rng.permutation(city),
            "idle": rng.choice(["idleone", "idletwo", "idlethree"], N),
            "number": rng.normal(size=N),
        }
    )


def target(X, make):
    y = X["age"] / 9.0 + 3.0 * (X["city"] == "Ulm").to_numpy(float)
    if make.__name__ == "two_outputs":
        return np.stack([y, -y], axis=1)
    return np.where(y > y.median(), "high", "low") if "classes" in make.__name__ else y.to_numpy()


def content(path):
    """All texts in a file: those in arrays of NPZ files, too."""
    raw = path.read_bytes()
    if not zipfile.is_zipfile(path):
        return raw.decode("latin-1")
    with np.load(path) as arrays, zipfile.ZipFile(path) as members:
        return " ".join(
            [*(str(arrays[name].tolist()) for name in arrays), *map(str, map(members.read, members.namelist()))]
        )


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_nothing_that_leaves_holds_training_rows(name, tmp_path):
    estimator, make = MODELS[name]
    X = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(estimator).set_params(random_state=0).fit(X, target(X, make))
    encoding = as_saved(model, curves=True).encoding
    read = [encoding.columns[j].name for j in encoding.read]
    assert not {"key", "few"} & set(read)
    rare = {level for column in ("key", "few", "city") for level, n in X[column].value_counts().items() if n < 5}
    hidden = rare | {level for level in X["idle"].unique() if "idle" not in read}
    refused = set()
    for kind, exporter in exporters().items():
        folder = tmp_path / kind
        folder.mkdir()
        try:
            exporter.write(as_saved(model, curves=True), folder / f"model{exporter.endings[0]}", OPTIONS)
        except ValueError:
            refused.add(kind)
        except ImportError:
            continue
    assert refused <= SINGLE
    opttree.save(model, tmp_path / "model.npz")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"json", "npz", "c", "h", "sql"} <= {path.suffix[1:] for path in files}
    for path in files:
        text = content(path)
        assert [level for level in sorted(hidden) if level in text] == [], path.name


def test_keys_would_be_found(tmp_path):
    """The search of the test above finds levels where a model has them."""
    X = table()
    X["city"] = np.where(X["city"].str.startswith("rare"), "Ulm", X["city"])
    model = opttree.TAORegressor(3, splits="axis", random_state=0).fit(X[["age", "city"]], target(X, table))
    for ending in ("json", "npz"):
        opttree.save(model, tmp_path / f"m.{ending}")
        assert "Ulm" in content(tmp_path / f"m.{ending}")
