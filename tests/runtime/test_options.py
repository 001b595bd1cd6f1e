"""Options: types, rules, words and documentation, each from one declaration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from opttree import GETRegressor, SDTRRegressor, TAOForestRegressor, TAORegressor
from opttree.runtime.options import Checked, changed, option
from solvers import TAO


@dataclass(frozen=True)
class Base(Checked):
    """A base.

    Notes
    -----
    Of the base.
    """

    count: int = option(3, "How many.", least=1)
    share: float | None = option(0.5, "Which share.", above=0, most=1)
    kind: Literal["a", "b"] = option("a", "Which kind.")
    rate: float | Literal["auto"] = option("auto", "How fast.", above=0, below=10)
    pair: tuple[float, float] = option((1.0, 2.0), "Two numbers.", least=0)
    many: tuple[int, ...] = option((), "Some numbers.", least=1)
    flag: bool = option(True, "Whether.")
    anything: Any = option(None, "Anything but zero.", test=lambda value: value != 0, words="anything but 0")
    inner: Checked | None = option(None, "Other options.")


@dataclass(frozen=True)
class Derived(Base):
    """A derived class."""

    count: int = changed(7)
    share: float | None = changed(None, "Of the derived class.")
    more: int = option(0, "More.", least=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 4),
        ("share", 1),
        ("share", np.float32(0.25)),
        ("share", None),
        ("kind", np.str_("b")),
        ("rate", 9.5),
        ("pair", [0, 1.5]),
        ("pair", np.array([0.5, 1.5])),
        ("many", (1, 2, 3)),
        ("flag", np.bool_(False)),
        ("anything", "x"),
        ("inner", Base(count=5)),
    ],
)
def test_what_fits_is_taken(name, value):
    assert getattr(Base(**{name: value}), name) is value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", 0, "count must be an integer >= 1; got 0"),
        ("count", True, "count must be an integer >= 1; got True"),
        ("count", 2.0, r"count must be an integer >= 1; got 2\.0"),
        ("share", 0.0, r"share must be a finite number in \(0, 1\] or None; got 0\.0"),
        ("share", np.nan, r"share must be a finite number in \(0, 1\] or None; got nan"),
        ("kind", "c", r"kind must be one of \['a', 'b'\]; got 'c'"),
        ("rate", 10, "rate must be a finite number between 0 and 10 or 'auto'; got 10"),
        ("rate", "fast", "rate must be a finite number between 0 and 10 or 'auto'; got 'fast'"),
        ("pair", (1.0,), r"pair must be two finite numbers >= 0; got \(1\.0,\)"),
        ("pair", (1.0, -1.0), r"pair must be two finite numbers >= 0; got \(1\.0, -1\.0\)"),
        ("many", (0,), r"many must be a tuple of integers >= 1; got \(0,\)"),
        ("flag", 1, "flag must be True or False; got 1"),
        ("anything", 0, "anything must be anything but 0; got 0"),
        ("inner", "x", "inner must be a Checked or None; got 'x'"),
    ],
)
def test_what_does_not_is_named_with_the_rule(name, value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        Base(**{name: value})


def test_changed_options_keep_their_rule():
    assert (Derived().count, Derived().share, Derived().kind) == (7, None, "a")
    with pytest.raises(ValueError, match="count must be an integer >= 1; got 0"):
        Derived(count=0)
    with pytest.raises(ValueError, match="more must be an integer >= 0; got -1"):
        Derived(more=-1)


def test_the_docstring_has_a_section_on_them():
    head, parameters = Base.__doc__.split("Parameters\n----------\n")
    assert head.strip() == "A base."
    assert "count : int, >= 1, default 3\n    How many." in parameters
    assert "kind : {'a', 'b'}, default 'a'" in parameters.replace('"', "'")
    assert "rate : float or 'auto', between 0 and 10, default 'auto'" in parameters.replace('"', "'")
    assert parameters.index("Other options.") < parameters.index("Notes\n-----\nOf the base.")
    derived = Derived.__doc__
    assert "count : int, >= 1, default 7\n    How many." in derived
    assert "share : float or None, in (0, 1], default None\n    Of the derived class." in derived
    assert "Which share." not in derived


def test_other_annotations_of_a_subclass_may_be_unknown():
    @dataclass(frozen=True)
    class Own(Base):
        extra: Unknown | None = None  # noqa: F821

    assert Own(count=2).count == 2
    with pytest.raises(ValueError, match="count must be an integer >= 1; got 0"):
        Own(count=0)


def test_choices_are_of_their_own_type():
    @dataclass(frozen=True)
    class Mixed(Checked):
        choice: Literal["auto", True, False] = option("auto", "Which.")
        number: Literal[1, 2] = option(1, "Which number.")
        limit: float | None = option(None, "A limit.", above=0, finite=False)

    assert Mixed(choice=np.True_, number=np.int64(2), limit=10**30).number == 2
    assert Mixed(limit=np.inf).limit == np.inf
    for wrong in ({"choice": 1}, {"number": True}, {"number": 3}, {"limit": 0.0}, {"limit": np.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Mixed(**wrong)


def test_only_inherited_options_can_be_changed():
    with pytest.raises(TypeError, match=r"Wrong\.q must change an option of a base class; there is none"):

        @dataclass(frozen=True)
        class Wrong(Checked):
            q: int = changed(1)


def test_integers_are_of_64_bits_and_pythons():
    with pytest.raises(ValueError, match=r"max_iter must be an integer of at most 64 bits; got 10{30}$"):
        TAO(max_iter=10**30)
    assert type(TAO(max_iter=np.int8(2)).max_iter) is int


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


@pytest.mark.parametrize(
    "model",
    [
        SDTRRegressor(np.int8(2), n_layers=np.int8(2), max_batches=np.int8(40)),
        GETRegressor(np.int8(4), n_starts=np.int8(2)),
        TAORegressor(np.int8(7), max_iter=np.int8(20)),
        TAOForestRegressor(np.int8(100)),
    ],
    ids=repr,
)
def test_small_integer_types_are_integers(table, model):
    model.set_params(random_state=0)
    wide = {k: int(v) if isinstance(v, np.integer) else v for k, v in model.get_params().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine = model.fit(*table).predict(table[0])
    np.testing.assert_array_equal(mine, type(model)(**wide).fit(*table).predict(table[0]))
