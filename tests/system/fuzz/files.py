"""Damage to model files of every kind, and what must be true of a file that loads."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from opttree import load
from tests.model_files import DAMAGE, check_answers, content, damaged, dropped, models, packed, places, unpacked
from tests.system.fuzz.properties import LONGEST, quiet


def saved_models() -> list[tuple[str, bytes]]:
    """Model files of every kind, by suffix."""
    return [(suffix, content(name, suffix)) for name in models() for suffix in (".json", ".npz")]


WORDS = (b"NaN", b"Infinity", b"-1", b"1e999", b"1e300", b"null", b"[]", b"{}", b'"x"', b"true", b"99999999999", b"")


def mutated(data: bytes, suffix: str, rng: np.random.Generator) -> bytes:
    """A file with some bytes, words, entries or members changed, dropped, repeated or cut."""
    kind = rng.integers(8)
    if kind == 0:
        changed = bytearray(data)
        for at in rng.integers(len(data), size=rng.integers(1, 8)):
            changed[at] = rng.integers(256)
        return bytes(changed)
    if kind == 1:
        return data[: rng.integers(len(data))]
    if kind == 2:
        first, last = np.sort(rng.integers(len(data), size=2))
        return data[:first] + data[last:]
    if suffix == ".npz":
        return mutated_members(data, rng) if kind < 5 else mutated_arrays(data, rng)
    if kind == 3 or not suffix:
        word = bytes(rng.choice(WORDS))
        at = int(rng.integers(len(data)))
        return data[:at] + word + data[at + int(rng.integers(6)) :]
    return json.dumps(mutated_entries(json.loads(data), rng)).encode()


def mutated_entries(entries: Any, rng: np.random.Generator) -> Any:
    """Entries of a model of which one, or a few, are another value or absent."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        there = list(places(entries))
        place = there[rng.integers(len(there))]
        value = DAMAGE[rng.integers(len(DAMAGE))]
        entries = damaged(entries, place, value) if rng.random() < 0.9 else dropped(entries, place)
    return entries


def mutated_members(data: bytes, rng: np.random.Generator) -> bytes:
    """An NPZ file without a member, with a damaged one, or with two that have changed places."""
    with zipfile.ZipFile(io.BytesIO(data)) as members:
        parts = {name: members.read(name) for name in members.namelist()}
    name, other = map(str, rng.choice(list(parts), 2))
    kind = rng.integers(3)
    if kind == 0:
        del parts[name]
    elif kind == 1:
        parts[name] = mutated(parts[name], "", rng)
    else:
        parts[name], parts[other] = parts[other], parts[name]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as members:
        for name, content in parts.items():
            members.writestr(name, content)
    return out.getvalue()


def mutated_arrays(data: bytes, rng: np.random.Generator) -> bytes:
    """An NPZ file with a damaged header, or with arrays of other numbers, another type or another shape."""
    arrays = unpacked(data)
    for _ in range(rng.choice([1, 1, 2])):
        name = str(rng.choice(list(arrays)))
        if name == "header":
            arrays[name] = np.array(json.dumps(mutated_entries(json.loads(str(arrays[name])), rng)))
            continue
        array = arrays[name]
        kind = rng.integers(4)
        if kind == 0 and array.size and array.dtype.kind in "if":
            array = array.astype(float)
            array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, 1e308, -1e308, -1.0, 0.5, 0.0])
        elif kind == 1:
            kinds = ["U8", "?", "f4", ">i8", "f8"] if array.dtype.kind in "if" else ["U1"]
            with np.errstate(over="ignore", invalid="ignore"):
                array = array.astype(str(rng.choice(kinds)))
        elif kind == 2:
            array = array[: rng.integers(len(array))] if len(array) else array[None]
        else:
            array = np.concatenate([array, array]) if rng.random() < 0.5 else array.ravel()
        arrays[name] = array
    return packed(arrays)


def check_file(data: bytes, suffix: str, folder: Path) -> None:
    """What loads predicts finite numbers; what does not is refused in a sentence that names the file."""
    path = folder / f"model{suffix}"
    path.write_bytes(data)
    try:
        with quiet():
            model = load(path)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "must be a model written by opttree" in message or "must have model version" in message
        assert len(message) <= 2 * LONGEST
        return
    with quiet():
        check_answers(model)
