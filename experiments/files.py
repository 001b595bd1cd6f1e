"""What the TOML files of protocols state, as dictionaries: what a file extends, methods alike, swept methods."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


def stated_in(folder: Path, name: str, extending: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the file called ``name`` in ``folder``, or at that path, states, on top of the file that it extends."""
    if name in extending:
        raise ValueError(f"protocol {extending[0]}: extends must not lead back to itself; got {name!r}")
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        raise ValueError(f"protocol must be one of {', '.join(names(folder))}, or a .toml file; got {name!r}")
    with path.open("rb") as file:
        try:
            stated = tomllib.load(file)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"protocol {name}: not TOML, {error}") from error
    base = stated.pop("extends", None)
    inherited = {} if base is None else stated_in(folder, base, (*extending, name))
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


def swept(label: str, stated: Any) -> dict[str, Any]:
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
    """A method with what that called ``like`` states, its own options on top."""
    if not isinstance(method, dict) or "like" not in method:
        return method
    own = dict(method)
    like = own.pop("like")
    if not isinstance(like, str) or not isinstance(known.get(like), dict):
        raise ValueError(f"protocol {name}: like must be the label of another method; got {like!r}")
    model = _alike(name, known[like], {k: v for k, v in known.items() if k != like})
    return {**model, **own, "options": {**model.get("options", {}), **own.get("options", {})}}
