"""How the code stands: rooms, floors, arrows, circles, classes, parameters, calls and memory of a fit, lines.

A room is a folder of opttree, a module that stands loose in it, or one of the packages solvers and experiments. What
stands loose and imports names alone is a door; doors are one room. An arrow is a room that names another, in an import
wherever it stands or in a string, but for the one table of doors that open upwards, ``model/late.py``. The floor of a
room is the length of the longest way down from it; arrows that close a circle are counted, and left out of the floors.

python -m experiments.benchmarks.house
"""

from __future__ import annotations

import ast
import sys
import threading
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("opttree", "solvers", "experiments")
MOST_PARAMETERS = (8, 10)


def modules() -> dict[str, Path]:
    """Every module and its file."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def room_of(module: str) -> str:
    """The room of a module; doors of opttree, and opttree itself, are one room each."""
    parts = module.split(".")
    if parts[0] != "opttree" or len(parts) == 1:
        return parts[0]
    path = ROOT / "opttree" / f"{parts[1]}.py"
    return "doors" if path.exists() and is_door(path) else parts[1]


def is_door(path: Path) -> bool:
    """Whether a module has nothing but imports and the list of its names."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return all(isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)) for node in body)


def named(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file names."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in whole}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            found.add(node.value.partition(":")[0])
    return {name for name in found if name in known}


def floors(arrows: set[tuple[str, str]]) -> tuple[int, int]:
    """The number of floors, and of the arrows that close circles."""
    below: dict[str, set[str]] = {}
    for above, room in arrows:
        below.setdefault(above, set()).add(room)
        below.setdefault(room, set())
    height: dict[str, int] = {}
    back = 0

    def climb(room: str, way: tuple[str, ...]) -> int:
        nonlocal back
        if room in height:
            return height[room]
        top = 1
        for other in sorted(below[room]):
            if other in way or other == room:
                back += 1
            else:
                top = max(top, 1 + climb(other, (*way, room)))
        height[room] = top
        return top

    return max(climb(room, ()) for room in sorted(below)), back


def plan() -> dict[str, Any]:
    """Rooms, floors, arrows, circles."""
    known = modules()
    arrows = {
        (room_of(module), room_of(name))
        for module, path in known.items()
        for name in (named(path, known) if module != "opttree.model.late" else ())
        if room_of(module) != room_of(name)
    }
    rooms = {room_of(module) for module in known}
    loose = [path for path in (ROOT / "opttree").glob("*.py") if path.name != "__init__.py"]
    count, back = floors(arrows)
    return {
        "rooms": len(rooms),
        "floors": count,
        "arrows": len(arrows),
        "arrows that close circles": back,
        "loose modules of opttree": len(loose),
        "  of more than 40 lines": sum(len(path.read_text().splitlines()) > 40 for path in loose),
    }


def parameters() -> dict[str, Any]:
    """Kernels of many parameters, and upper-case names that are bound twice."""
    sizes = [
        len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
        for path in (ROOT / "opttree" / "kernels").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    values: dict[str, set[str]] = {}
    for path in modules().values():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
                values.setdefault(node.targets[0].id, set()).add(ast.unparse(node.value))
    found = {f"kernels of more than {most} parameters": sum(size > most for size in sizes) for most in MOST_PARAMETERS}
    return found | {"constants' names of two values or more": sum(len(value) > 1 for value in values.values())}


def trip() -> dict[str, Any]:
    """Rooms, calls and memory of a fit, and the classes of an estimator."""
    import numpy as np
    from sklearn.datasets import load_diabetes

    import opttree

    X, y = load_diabetes(return_X_y=True)
    kind = opttree.GETRegressor
    hooks = {name for base in kind.__mro__ if base.__module__.startswith("opttree") for name in vars(base)}
    opttree.TAORegressor(3, random_state=0).fit(X, y)
    calls: Counter[str] = Counter()

    def seen(frame: Any, event: str, _argument: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.split(".")[0] in PACKAGES:
            calls[name] += 1
        elif event == "call":
            calls["others"] += 1

    threading.setprofile(seen)
    sys.setprofile(seen)
    opttree.TAORegressor(3, random_state=0).fit(X, y)
    sys.setprofile(None)
    threading.setprofile(None)
    found = {
        "classes of GETRegressor": len(kind.__mro__),
        "  its private functions and properties": sum(
            name.startswith("_") and not name.startswith("__") and callable_or_property(kind, name) for name in hooks
        ),
        "rooms that a fit of TAORegressor enters": len({room_of(name) for name in calls if name != "others"}),
        "  modules": len(calls) - 1,
        "  Python calls": sum(calls.values()),
        "  of ours": sum(count for name, count in calls.items() if name != "others"),
    }
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = X[:, 0] * X[:, 1] + rng.normal(size=len(X))
    for name, options in (("linear", {"leaves": "linear"}), ("constant", {}), ("axis", {"splits": "axis"})):
        model = opttree.TAORegressor(4, max_iter=5, random_state=0, **options)
        model.fit(X[:500], y[:500])
        tracemalloc.start()
        model.fit(X, y)
        found[f"memory of a fit in sizes of X, {name}"] = round(tracemalloc.get_traced_memory()[1] / X.nbytes, 2)
        tracemalloc.stop()
    return found


def callable_or_property(kind: type, name: str) -> bool:
    """Whether a class has a function or a property of this name."""
    value = getattr(kind, name, None)
    return callable(value) or isinstance(value, property)


def lines() -> dict[str, Any]:
    """Lines of Python by package, and without docstrings, comments and blank lines."""
    places = (*PACKAGES, "tests", "docs")
    counts = {
        place: sum(
            len(path.read_text(encoding="utf-8").splitlines())
            for path in (ROOT / place).rglob("*.py")
            if not {"_build", "generated", "gallery"} & set(path.parts)
        )
        for place in places
    }
    bare = sum(code_lines(path) for place in PACKAGES for path in (ROOT / place).rglob("*.py"))
    totals = {"lines in all": sum(counts.values()), "  of code, in the three packages": bare}
    return {f"lines of {place}": count for place, count in counts.items()} | totals


def code_lines(path: Path) -> int:
    """Lines that hold code: neither blank nor comments nor docstrings."""
    text = path.read_text(encoding="utf-8")
    held = {k for k, line in enumerate(text.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def main() -> None:
    """Print the measures."""
    for measure in (plan, parameters, trip, lines):
        for name, value in measure().items():
            print(f"{name:48s} {value:>10}", flush=True)


if __name__ == "__main__":
    main()
