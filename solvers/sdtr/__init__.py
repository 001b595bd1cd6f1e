"""SDTR: soft decision trees, single, averaged ("shallow") and in layers ("deep").

Paper (Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9, 2021) to code:

| paper | here |
|---|---|
| eq. (1) to (8), beta; section III-D: averages, layers, output dimensions | `opttree.SoftForestProblem` |
| section III-C: learning rate of the leaves times their number | `SDTR.reweight` |
| section IV-C: initial values, QHAdam, batches, early stopping | `SDTR`, `solvers.descent.Descent` |
| section III-A: prediction by the most probable leaf | `opttree.Tree.likeliest` |
| eq. (10) to (12): average entropy; importance from near-root weights | `opttree.interpret` |
| quantile transform of the features | `opttree.SDTRRegressor` |
| section V-E: classification, by log loss of class scores in the leaves | `opttree.SDTRClassifier` |

The paper's "depth d" counts the level of the leaves (it has 2^(d-1) leaves); depths are levels of splits here.
"""

from solvers.sdtr.sdtr import SDTR

__all__ = ["SDTR"]
