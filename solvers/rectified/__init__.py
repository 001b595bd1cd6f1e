"""Hard oblique trees by gradients of rectified distances: RADDT and DTSemNet."""

from solvers.rectified.dtsemnet import DTSemNet as DTSemNet
from solvers.rectified.raddt import RADDT as RADDT
