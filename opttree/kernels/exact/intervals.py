"""A priority queue of intervals of thresholds.

An interval is a range of cuts of one feature, in the sorted order of a node's rows: cut c has the first c rows on the
left. It holds the cuts strictly between ``low`` and ``high``; the costs of the sides are bounded by those at two other
cuts, ``left_at <= low`` and ``right_at >= high``: no cut of the interval has a cheaper left side than ``left_at``, or a
cheaper right side than ``right_at``.

What is known of one cut's sides holds beyond it: a split of the left side that is too dear there is too dear for all
cuts to the right, where the left side has more rows. An interval therefore holds the *reach* of both sides: per
feature, the first and the last split that may still be worth a look.
"""

from collections import namedtuple

import numpy as np

from opttree.runtime.compiling.compiled import kernel, kernel_without_refcounts

FEATURE, LOW, HIGH, LEFT_AT, RIGHT_AT, LEFT_HELD, RIGHT_HELD, SHARE = range(8)  # columns of ``places``; see `Queue`
Place = namedtuple("Place", "feature low high left_at right_at left_held right_held share")  # the same, as numbers
KEY, LEFT_COST, RIGHT_COST = range(3)  # columns of ``values``

# heap (capacity,) of numbers of intervals; places (capacity, 8) int32, values (capacity, 3); reach (capacity, 2, p, 2)
# of the left and the right side; free (capacity,) numbers not in use; size (2,): intervals in the heap, numbers free.
# LEFT_HELD and RIGHT_HELD say where the histograms at the two cuts are held, -1 for nowhere; SHARE: how many of the
# splits below go to the left side
Queue = namedtuple("Queue", "heap places values reach free size")
# an interval taken from the queue: place (8,) int32 and values (3,); the sides' reach, each (p, 2)
Interval = namedtuple("Interval", "place values left_reach right_reach")
EVERY = 2**30  # above all ranks


@kernel()
def new_interval(p):
    """Room for an interval."""
    return Interval(np.empty(8, np.int32), np.empty(3), np.zeros((p, 2), np.int32), np.zeros((p, 2), np.int32))


@kernel()
def new_queue(capacity, p):
    """An empty queue for intervals of ``p`` features."""
    free = np.arange(capacity - 1, -1, -1).astype(np.int32)
    size = np.zeros(2, np.int64)
    size[1] = capacity
    places, reach = np.empty((capacity, 8), np.int32), np.empty((capacity, 2, p, 2), np.int32)
    return Queue(np.empty(capacity, np.int32), places, np.empty((capacity, 3)), reach, free, size)


@kernel()
def grown(queue):
    """The queue with twice the capacity."""
    capacity = queue.heap.size
    larger = new_queue(2 * capacity, queue.reach.shape[2])
    larger.heap[:capacity] = queue.heap
    larger.places[:capacity] = queue.places
    larger.values[:capacity] = queue.values
    larger.reach[:capacity] = queue.reach
    larger.free[capacity : capacity + queue.size[1]] = queue.free[: queue.size[1]]
    larger.size[0], larger.size[1] = queue.size[0], capacity + queue.size[1]
    return larger


@kernel_without_refcounts()
def copy_reach(source, reach):
    """``reach = source``, both (p, 2)."""
    for j in range(reach.shape[0]):
        reach[j, 0], reach[j, 1] = source[j, 0], source[j, 1]


@kernel_without_refcounts()
def widen(reach, j, first, last):
    """Make ``reach (p, 2)`` of feature ``j`` hold the splits ``first`` to ``last``."""
    reach[j, 0], reach[j, 1] = min(reach[j, 0], first), max(reach[j, 1], last)


@kernel_without_refcounts()
def close(reach):
    """An empty reach of all features."""
    for j in range(reach.shape[0]):
        reach[j, 0], reach[j, 1] = EVERY, -1


@kernel_without_refcounts()
def push(queue, key, place, left, right, reach):
    """Add an interval with the costs ``left`` and ``right`` of the sides that bound it, and their ``reach``, a pair of
    (p, 2). The queue must have room.
    """
    heap, places, values, reaches, free, size = queue
    size[1] -= 1
    number = free[size[1]]
    places[number, FEATURE], places[number, LOW], places[number, HIGH] = place.feature, place.low, place.high
    places[number, LEFT_AT], places[number, RIGHT_AT] = place.left_at, place.right_at
    places[number, LEFT_HELD], places[number, RIGHT_HELD] = place.left_held, place.right_held
    places[number, SHARE] = place.share
    for way in range(2):
        copy_reach(reach[way], reaches[number, way])
    values[number, KEY], values[number, LEFT_COST], values[number, RIGHT_COST] = key, left, right
    at = size[0]
    size[0] += 1
    while at > 0:
        above = (at - 1) // 2
        if values[heap[above], KEY] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = number


@kernel_without_refcounts()
def pop(queue):
    """Remove the interval of the lowest key; its number, whose entries stay readable until the next `push`."""
    heap, _places, values, _reach, free, size = queue
    top = heap[0]
    size[0] -= 1
    last = heap[size[0]]
    key = values[last, KEY]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size[0]:
            break
        if below + 1 < size[0] and values[heap[below + 1], KEY] < values[heap[below], KEY]:
            below += 1
        if values[heap[below], KEY] >= key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    free[size[1]] = top
    size[1] += 1
    return top
