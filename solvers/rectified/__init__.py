"""Hard oblique trees by gradients of rectified distances: RADDT and DTSemNet; and HRT, hinge regression trees."""

from solvers.rectified.dtsemnet import DTSemNet as DTSemNet
from solvers.rectified.hrt import HRT as HRT
from solvers.rectified.raddt import RADDT as RADDT
