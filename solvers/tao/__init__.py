"""Tree alternating optimization (Zharmagambetov and Carreira-Perpinan, ICML 2020).

======================  =========================================================
paper                   here
======================  =========================================================
Theta, theta_i          ``children, A, b`` of branches; ``values, coefs`` of leaves
f_i, "right if >= 0"    ``A[t].x - b[t] > 0``; equality goes left
R_i, reduced set        rows with ``node_of == i``
l_in(z)                 ``own`` on the side a row takes, ``other_loss`` on the other
pseudolabel, weight     sign and size of ``u``
alpha                   penalties times n (the statement is a mean, eq. (1) a sum)
======================  =========================================================
"""

from solvers.core.parts import Bag
from solvers.tao.parts import LeafSums, PassesOverParts
from solvers.tao.tao import TAO

__all__ = ["TAO", "Bag", "LeafSums", "PassesOverParts"]
