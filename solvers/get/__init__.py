"""GET: gradient-based entire tree optimization.

Paper ("Can a single tree outperform an entire forest?") to code:

| paper | here |
|---|---|
| eq. (3), (4): smooth loss, scaled sigmoid | `opttree.SmoothTreeProblem` |
| Algorithm 1 | `GET`; as printed: `GET.paper()` |
| Algorithm 2, subtree polish | `SubtreePolish` |
| alpha_1 < ... < alpha_n, sampled | `Anneal.scale_ranges` |
| N_epoch, N_start, eta | `Anneal.epochs`, `GET.n_starts`, `Anneal.optimizer` |
| line 12, appendix E: leaves by hard splits | `TreeProblem.fit_leaves` |
| eq. (5): l1 penalty on A | `opttree.L1(splits=...)` |
| tables 5 and 9: fixed alpha, no polish | ``GET.paper(polish=False, scale_ranges=((100, 100),))`` |
"""

from solvers.get.anneal import Anneal
from solvers.get.get import GET
from solvers.get.polish import SubtreePolish

__all__ = ["GET", "Anneal", "SubtreePolish"]
