"""GradTree: axis-aligned trees by straight-through gradients on a dense representation.

Paper (Marton et al., "GradTree: learning axis-aligned decision trees with gradient descent", AAAI 2024) to code:

| paper | here |
|---|---|
| section 3.2: I, T, L; eq. (6), (7); section 3.3; algorithm 1 | `opttree.DenseTreeProblem` |
| algorithm 2, appendix A: Adam, batches, averaged weights, early stopping, restarts | `GradTree` |
| appendix C: focal factor, PolyLoss | `GradTree.gamma`, `GradTree.epsilon` |
| learning rates of index, values, leaf | `GradTree.learning_rates` |
| post-hoc pruning of branches without rows | `TreeProblem.trim` |
| table 4: ST Gumbel softmax; temperature annealing | ``GradTree(index="gumbel")``; `GradTree.annealed` |
"""

from solvers.gradtree.gradtree import GradTree

__all__ = ["GradTree"]
