"""
Exporting to ONNX and C
=======================

A model leaves Python: as an ONNX graph and as C without a library, with the same answers.
"""

# %%
import subprocess
import tempfile
import time
from ctypes import CDLL, POINTER, c_double, c_size_t
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import opttree
from opttree import GETRegressor, datasets, export

X, y = datasets.load("friedman1", as_arrays=True)
model = GETRegressor(max_depth=4, random_state=0).fit(X, y)
folder = Path(tempfile.mkdtemp())

# %%
# ONNX, double precision:
opttree.to_onnx(model, folder / "model.onnx")
session = onnxruntime.InferenceSession(folder / "model.onnx")
by_onnx = session.run(None, {session.get_inputs()[0].name: X})[0].ravel()

# %%
# C: a header, a source and a Makefile. All numbers are constants, no memory is allocated.
header, source = export.to_c(model, folder)
print(header.read_text()[:600])
subprocess.run(["make", "-s", "-C", folder], check=True)
library = CDLL(folder / "libmodel.so")
library.model_predict_rows.restype = None
library.model_predict_rows.argtypes = [POINTER(c_double), c_size_t, POINTER(c_double)]
by_c = np.empty(len(X))
rows = np.ascontiguousarray(X)
library.model_predict_rows(rows.ctypes.data_as(POINTER(c_double)), len(X), by_c.ctypes.data_as(POINTER(c_double)))

# %%
# The same answers, but for rounding:
ours = model.predict(X)
print(f"ONNX {np.abs(by_onnx - ours).max():.1e}, C {np.abs(by_c - ours).max():.1e}")


# %%
# And how many rows a second each predicts, in one go:
def rate(call):
    times = []
    for _ in range(7):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return len(X) / np.median(times) / 1e6


def in_c():
    library.model_predict_rows(rows.ctypes.data_as(POINTER(c_double)), len(X), by_c.ctypes.data_as(POINTER(c_double)))


calls = {
    "opttree": lambda: model.predict(X),
    "ONNX runtime": lambda: session.run(None, {session.get_inputs()[0].name: X}),
    "C": in_c,
}
_, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh(list(calls), [rate(call) for call in calls.values()])
ax.set_xlabel("million rows a second")
