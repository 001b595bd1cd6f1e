"""Records that kernels take: arrays that belong together, as named tuples.

Arrays are C-contiguous and float64 if nothing else is said. n rows, p features, K outputs; a tree of B branches has
L = B + 1 leaves, see `opttree.kernels.routing`.

Numba asks Python for the type of a named tuple in each call from there, which takes 0.6 microseconds; a plain tuple's
it knows. Predictions of single rows therefore hand over ``tuple(record)``, of which the kernel makes the record again.
Kernels that read records inside of their loops are `lean`, or else they would count references there.
"""

from collections import namedtuple

# children (B, 2) int32: nodes; splits A (B, p) and b (B,); feature (B,) int32: the only nonzero column of A, or -1
Tree = namedtuple("Tree", "children A b feature")
# A (nodes, p), b (nodes,) and feature (nodes,) of some nodes, for what needs no children
Splits = namedtuple("Splits", "A b feature")
# values (L, K); coefs (L, K, p), or (L, K, 0) for constant leaves; lower and upper (L, K), or (0, 0) for no bounds
Leaves = namedtuple("Leaves", "values coefs lower upper")
# X (n, p); Y (n, K), (n, 1) class codes, or under `TABLE` the losses (n, L) of the leaves; weight (n,)
Rows = namedtuple("Rows", "X Y weight")
# rows of group g are order[start[g]:start[g + 1]], int32 and int64
Group = namedtuple("Group", "order start")
# strengths of an elastic net
Net = namedtuple("Net", "l1 l2")
