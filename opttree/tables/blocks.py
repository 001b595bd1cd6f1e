"""What is computed where parts of a table are: answers and sums of a block of parts, and what is told about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.threads import limited
from opttree.tables.sources import Columns, Delayed, Read, checked, file_of


def added(total: Any, more: Any) -> Any:
    """The sum of two numbers, arrays, objects with a method ``plus``, or tuples of these; None is nothing."""
    if total is None:
        return more
    if hasattr(total, "plus"):
        return total.plus(more)
    if isinstance(total, (tuple, list)):
        return tuple(added(own, other) for own, other in zip(total, more, strict=True))
    return total + more


def work_of_block(
    work: Callable[..., Any],
    function: Callable[..., Any],
    parts: list[Any] | None,
    held: Any,
    columns: Columns,
    block: range,
    shared: Any,
    states: Any = None,
) -> Any:
    """``work`` of a block: of its parts, read from where they are or from ``held`` partitions."""

    def read(place: int) -> Read:
        return checked(parts[place].read(columns) if parts is not None else Delayed.divided(held[place], columns))

    with limited(1):
        return work(function, [partial(read, place) for place in range(len(block))], block, shared, states)


def answers(function: Callable[..., Any], reads: list[Callable[[], Read]], block: range, shared: Any, _: None) -> Any:
    """What the function has for each part of the block."""
    return [function(read(), number, shared) for read, number in zip(reads, block, strict=True)]


def summed(
    function: Callable[..., Any],
    reads: list[Callable[[], Read]],
    block: range,
    shared: Any,
    known: Any,
    *,
    again: bool = False,
) -> Any:
    """The sum of the block's answers; where states are kept, also the new ones. Parts are read ``again``, or once."""
    total, new = None, []
    if known is None:
        for read, number in zip(reads, block, strict=True):
            total = added(total, function(read(), number, shared))
        return total
    states = known[0]
    for place, (read, number) in enumerate(zip(reads, block, strict=True)):
        before = None if states is None else states[place]
        answer, state = function(read() if again or states is None else None, number, shared, before)
        total = added(total, answer)
        new.append(state)
    return total, new


def together(*parts: Any) -> list[Any]:
    """Parts that a worker holds, as a list."""
    return list(parts)


def written(part: Read, number: int, shared: tuple[str, Callable[[Read], Any]]) -> int:
    """Write a part as arrays into a folder; its number of rows."""
    folder, read = shared
    arrays = read(part)
    for name, array in zip(Read._fields, arrays, strict=True):
        beside = file_of(folder, number, f"{name}.new")
        np.save(beside, array)
        Path(beside).replace(file_of(folder, number, name))
    return len(arrays[-1])


def same(shared: Any) -> Any:
    """What is told, once for each worker."""
    return shared


def size(part: Read, number: int, shared: Any) -> int:
    """Rows of a part."""
    return len(part.y)


def taken(part: Read, number: int, wanted: Sequence[NDArray[np.intp]]) -> Read:
    """Some rows of a part."""
    own = wanted[number]
    X = part.X.iloc[own] if hasattr(part.X, "iloc") else part.X[own]
    return Read(X, part.y[own], None if part.weight is None else part.weight[own])


def size_in_bytes(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (tuple, list)):
        return sum(size_in_bytes(one) for one in value)
    if isinstance(value, dict):
        return sum(size_in_bytes(one) for one in value.values())
    if is_dataclass(value) and not isinstance(value, type):
        return sum(size_in_bytes(getattr(value, one.name)) for one in fields(value))
    return 8 if isinstance(value, (int, float, np.number)) else 0
