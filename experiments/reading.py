"""Protocols, read from TOML files: what a file extends, budgets, methods alike, swept methods, slices of others.

A file states data sets, splits and seeds, methods with options or search grids, the metrics and the statistical tests
of its report, and budgets that override any of these. `experiments/README.md` lists the keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from experiments.planned import Method, Splits
from experiments.protocol import FOLDER, PAIRED, Collection, Protocol


def names() -> list[str]:
    """The protocols that ship; `read` also takes the path of any other TOML file."""
    return sorted(path.stem for path in (FOLDER / "protocols").glob("*.toml"))


def read(name: str, budget: str = "full") -> Protocol:
    """The protocol called ``name``, or in the file of that path, which ends in ``.toml``, under a budget; ValueError in
    one sentence for what its file should not hold.
    """
    stated = _stated_in(name)
    name = Path(name).stem if name.endswith(".toml") else name
    budgets = stated.pop("budgets", {})
    if budget != "full" and budget not in budgets:
        raise ValueError(f"budget of {name} must be one of {', '.join({'full': 0, **budgets})}; got {budget!r}")
    overrides = dict(budgets.get(budget, {}))
    if "slices" in stated:
        return _collection(name, budget, stated | overrides, tuple({"full": 0, **budgets}))
    options, grids = overrides.pop("options", {}), overrides.pop("grid", {})
    chosen = overrides.pop("methods", None)
    try:
        for key in ("title", "methods"):
            if key not in stated:
                raise ValueError(f"{key} must be stated; got none")
        methods: dict[str, Method] = {}
        for label, method in dict(stated.pop("methods")).items():
            methods |= {name: _method(name, one) for name, one in _swept(label, method).items()}
        for label in [*options, *grids, *(chosen or ())]:
            if label not in methods:
                raise ValueError(f"budget {budget} must name methods among {', '.join(methods)}; got {label!r}")
        for label, extra in options.items():
            methods[label] = replace(methods[label], options={**methods[label].options, **extra}, reduced=True)
        for label, grid in grids.items():
            methods[label] = replace(methods[label], grid=grid, reduced=True)
        if chosen is not None:
            methods = {label: methods[label] for label in chosen}
        splits = Splits(**{**stated.pop("splits", {}), **overrides.pop("splits", {})})
        values: dict[str, Any] = {**stated, **overrides}
        unknown = set(values) - {f.name for f in fields(Protocol)}
        if unknown:
            raise ValueError(f"unknown key {min(unknown)!r}")
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        for key in ("time_limit", "memory_limit"):
            if isinstance(values.get(key), int):
                values[key] = float(values[key])
        values = {"published": name, "store": name} | values
        if budget != "full":
            _restrict(values, methods)
        return Protocol(
            name=name, methods=methods, splits=splits, budget=budget, budgets=tuple({"full": 0, **budgets}), **values
        )
    except (TypeError, KeyError, ValueError) as error:
        sentence = str(error)
        raise ValueError(sentence if sentence.startswith("protocol ") else f"protocol {name}: {sentence}") from error


def _collection(name: str, budget: str, stated: Mapping[str, Any], budgets: tuple[str, ...]) -> Collection:
    rows, seconds, methods = stated["rows"], float(stated["seconds"]), stated.get("methods")
    parts = tuple(sliced(read(other), rows, seconds, methods) for other in stated["slices"])
    return Collection(
        name=name,
        title=stated["title"],
        source=stated.get("source", ""),
        note=stated.get("note", ""),
        parts=parts,
        budget=budget,
        budgets=budgets,
        store=name,
        time_limit=float(stated["seconds"]),
        memory_limit=8000.0,
        threads=1,
    )


def sliced(part: Protocol, rows: int, seconds: float, most_methods: int | None) -> Protocol:
    """A protocol on the first of its data sets, seeds and depths, on few rows, with one value for each option of its
    grids; ``most_methods`` of its methods, or all: first those of a paper's method.
    """
    used = [label for label, method in part.methods.items() if method.use]
    labels = sorted(used, key=lambda label: not part.methods[label].is_printed)[:most_methods]
    methods = {}
    for label in labels:
        method = part.methods[label]
        grids = [{option: values[:1] for option, values in grid.items()} for grid in method.grids[:1]]
        methods[label] = replace(method, grid=grids[0] if grids else {}, trials=0, parts=1)
    return replace(
        part,
        methods=methods,
        datasets=part.datasets[:1],
        seeds=part.seeds[:1],
        depths=part.depths[:1],
        leaves=part.leaves[:1],
        splits=replace(part.splits, most=rows),
        time_limit=seconds,
        limits=(),
        groups={},
        baseline="",
        improvement="",
        ruler="",
        tests=(),
        sweep="",
    )


def _method(label: str, stated: Mapping[str, Any]) -> Method:
    known = {f.name for f in fields(Method)}
    if not isinstance(stated, dict) or set(stated) - known:
        got = repr(stated) if not isinstance(stated, dict) else ", ".join(set(stated) - known)
        raise ValueError(f"method {label} must be a table of {', '.join(sorted(known))}; got {got}")
    return Method(**stated)


def _restrict(values: dict[str, Any], methods: Mapping[str, Method]) -> None:
    """Leave out of a budget's groups and tests what has no data sets or methods in it."""
    if values.get("baseline") and values["baseline"] not in methods:
        values["baseline"] = ""
        values["tests"] = tuple(test for test in values.get("tests", ()) if test not in PAIRED)
    if values.get("ruler") and values["ruler"] not in methods:
        values["ruler"] = ""
    kept = {name: [one for one in sets if one in values["datasets"]] for name, sets in values.get("groups", {}).items()}
    values["groups"] = {name: sets for name, sets in kept.items() if sets}


def _stated_in(name: str, extending: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the protocol called ``name``, or the file at that path, states, on top of the file that it extends."""
    if name in extending:
        raise ValueError(f"protocol {extending[0]}: extends must not lead back to itself; got {name!r}")
    path = Path(name) if name.endswith(".toml") else FOLDER / "protocols" / f"{name}.toml"
    if not path.is_file():
        raise ValueError(f"protocol must be one of {', '.join(names())}, or a .toml file; got {name!r}")
    with path.open("rb") as file:
        try:
            stated = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"protocol {name}: not TOML, {error}") from error
    base = stated.pop("extends", None)
    inherited = {} if base is None else _stated_in(base, (*extending, name))
    if isinstance(stated.get("methods"), dict):
        known = {**inherited.get("methods", {}), **stated["methods"]}
        stated["methods"] = {label: _alike(name, method, known) for label, method in dict(stated["methods"]).items()}
    there = set(stated.get("methods", inherited.get("methods", {})))
    sets = set(stated.get("datasets", inherited.get("datasets", [])))
    budgets = {
        name: _of_methods(budget, there)
        for name, budget in inherited.get("budgets", {}).items()
        if set(budget.get("datasets", [])) <= sets and ("methods" not in budget or there & set(budget["methods"]))
    }
    return {**inherited, **stated, "budgets": {**budgets, **stated.get("budgets", {})}}


def _swept(label: str, stated: Any) -> dict[str, Any]:
    """A method for each value of its ``sweep``, or the method itself."""
    if not isinstance(stated, dict) or "sweep" not in stated:
        return {label: stated}
    own = dict(stated)
    sweep = own.pop("sweep")
    if not (isinstance(sweep, dict) and len(sweep) == 1 and isinstance(values := next(iter(sweep.values())), list)):
        raise ValueError(f"method {label}: sweep must be one option with a list of values; got {sweep!r}")
    ((option, _values),) = sweep.items()
    found = {}
    for value in values:
        one = {**own, "use": str(own.get("use", "")).replace(f"{{{option}}}", str(value))}
        if "stands_for" in own:
            one["stands_for"] = str(own["stands_for"]).replace(f"{{{option}}}", str(value))
        if one["use"] == own.get("use", ""):
            one["options"] = {**own.get("options", {}), option: value}
        found[f"{label}, {option}={value}"] = one
    return found


def _of_methods(budget: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """An inherited budget without what it says of methods that are not there; at least one is."""
    kept = dict(budget)
    for key in ("options", "grid"):
        if key in kept:
            kept[key] = {label: said for label, said in kept[key].items() if label in known}
    if "methods" in kept:
        kept["methods"] = [label for label in kept["methods"] if label in known]
    return kept


def _alike(name: str, method: Any, known: Mapping[str, Any]) -> Any:
    """Resolve ``like = NAME``: start from the options of NAME, then override."""
    if not isinstance(method, dict) or "like" not in method:
        return method
    options = dict(method)
    like = options.pop("like")
    if not isinstance(like, str) or not isinstance(known.get(like), dict):
        raise ValueError(f"protocol {name}: like must be the label of another method; got {like!r}")
    model = _alike(name, known[like], {k: v for k, v in known.items() if k != like})
    return {**model, **options, "options": {**model.get("options", {}), **options.get("options", {})}}
