"""Options: each is declared once, with its type, default, validation rule and documentation."""

from __future__ import annotations

import inspect
import math
import re
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

COUNTS = {2: "two", 3: "three"}
MOST_BITS = 63  # of an integer, beside its sign
SECTIONS = (
    "Attributes",
    "Returns",
    "Raises",
    "See Also",
    "Notes",
    "References",
    "Examples",
)  # sections that follow the parameters


@dataclass(frozen=True)
class Rule:
    """Validation of an option beyond its type: a range for its numbers, and a test function."""

    doc: str | None = None
    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None
    finite: bool = True
    test: Callable[[Any], bool] | None = None
    words: str | None = None  # description of the rule, in place of the one made from type and range

    def holds(self, number: Any) -> bool:
        """Whether a number is within the range."""
        return bool(
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )

    @property
    def range(self) -> str:
        """The range in words, with a space before it."""
        low, high = (a if b is None else b for a, b in ((self.least, self.above), (self.most, self.below)))
        if low is not None and high is not None:
            if (self.above is None) == (self.below is None):
                return f" between {low:g} and {high:g}"
            return f" in {'[' if self.above is None else '('}{low:g}, {high:g}{']' if self.below is None else ')'}"
        if low is not None:
            return f" {'>=' if self.above is None else '>'} {low:g}"
        return "" if high is None else f" {'<=' if self.below is None else '<'} {high:g}"


def option(default: Any = MISSING, doc: str | None = None, *, factory: Any = MISSING, **rule: Any) -> Any:
    """A field of a dataclass of options.

    Parameters
    ----------
    default, factory : object
        As in `dataclasses.field`.
    doc : str or None, default None
        What the docstring says of the option.
    **rule : object
        Fields of a `Rule`: ``least``, ``above``, ``most``, ``below`` and ``finite`` hold for all numbers in the option;
        ``test`` is a function of the value, and ``words`` says what it asks for.

    Returns
    -------
    dataclasses.Field
        The field, with its rule as metadata.
    """
    return field(default=default, default_factory=factory, metadata={"rule": Rule(doc, **rule)})


def changed(default: Any = MISSING, doc: str | None = None, *, factory: Any = MISSING) -> Any:
    """An inherited option with another default or documentation; its rule stays."""
    return field(default=default, default_factory=factory, metadata={"changes": doc})


def _declared(base: type) -> dict[str, Any]:
    return {name: f for name, f in getattr(base, "__dataclass_fields__", {}).items() if "rule" in f.metadata}


@cache
def rules(cls: type) -> tuple[tuple[str, Any, Rule], ...]:
    """Name, type and rule of every option of a dataclass."""
    return tuple((f.name, _type_of(cls, f.name), f.metadata["rule"]) for f in fields(cls) if "rule" in f.metadata)


def _type_of(cls: type, name: str) -> Any:
    """The type of an option, as the nearest class that annotates it says; others may be unknown when it runs."""
    for base in cls.__mro__:
        if name in (annotations := inspect.get_annotations(base)):
            kind = annotations[name]
            return eval(kind, vars(sys.modules[base.__module__])) if isinstance(kind, str) else kind
    raise TypeError(f"{cls.__name__}.{name} needs an annotation")


def fits(kind: Any, value: Any, rule: Rule) -> bool:
    """Whether ``value`` is of the type ``kind``, its numbers finite and within the range of ``rule``."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(fits(part, value, rule) for part in args)
    if origin is Literal:
        return any(fits(type(choice), value, Rule()) and value == choice for choice in args)
    if origin is tuple:
        if not isinstance(value, (tuple, list, np.ndarray)):
            return False
        wanted = args[:1] * len(value) if args[-1] is Ellipsis else args
        return len(value) == len(wanted) and all(fits(k, v, rule) for k, v in zip(wanted, value, strict=True))
    if kind is types.NoneType:
        return value is None
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is int:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return whole and not _is_long(value) and rule.holds(value)
    if kind is float:
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        return number and (isinstance(value, int) or not rule.finite or math.isfinite(value)) and rule.holds(value)
    return kind is Any or not isinstance(kind, type) or (isinstance(value, kind) and not isinstance(value, type))


def _is_long(value: Any) -> bool:
    """Whether ``value`` is an integer of more than 64 bits."""
    return isinstance(value, int) and value.bit_length() > MOST_BITS


def allowed(kind: Any, rule: Rule) -> str:
    """The condition of `fits` in words."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _either(allowed(part, rule) for part in args)
    if origin is Literal:
        return f"one of {list(args)}" if len(args) > 1 else repr(args[0])
    if origin is tuple:
        inner = allowed(args[0], rule).split(" ", 1)[1]
        plural = re.sub(r"\b(number|integer)\b", r"\1s", inner)
        return f"{COUNTS.get(len(args), len(args)) if args[-1] is not Ellipsis else 'a tuple of'} {plural}"
    if kind is types.NoneType:
        return "None"
    words = {
        bool: "True or False",
        int: f"an integer{rule.range}",
        float: f"a {'finite ' * rule.finite}number{rule.range}",
    }
    if kind in words:
        return words[kind]
    name = str(getattr(kind, "__name__", kind))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _either(words: Iterable[str]) -> str:
    *first, last = list(words)
    return f"{', '.join(first)} or {last}" if first else last


def documented(cls: type, options: dict[str, Any], first: str | None) -> str:
    """The docstring of ``cls`` with a section on options: ``first``, then those of the class and of its bases."""
    types_of = {name: text for base in cls.__mro__[::-1] for name, text in inspect.get_annotations(base).items()}
    places = [inspect.get_annotations(base) for base in cls.__mro__]
    nearest = {name: next(i for i, place in enumerate(places) if name in place) for name in options}
    lines = ["Parameters", "----------"]
    for name in sorted(options, key=lambda name: (name != first, nearest[name])):
        rule, default = options[name].metadata["rule"], options[name].default
        if rule.doc is not None:
            kind = types_of[name]
            text = kind if isinstance(kind, str) else kind.__name__ if isinstance(kind, type) else str(kind)
            text = text.replace("typing.", "").replace("Device", 'Literal["cpu", "gpu", "auto"]')
            text = re.sub(r"Literal\[([^],]*)\]", r"\1", text)
            text = re.sub(r"Literal\[(.*?)\]", r"{\1}", text).replace(" | ", " or ").replace("'", '"')
            limits = f",{rule.range}" if rule.range else ""
            shown = f'"{default}"' if isinstance(default, str) else repr(default)
            lines.append(f"{name} : {text}{limits}" + (f", default {shown}" if default is not MISSING else ""))
            lines += [f"    {line}".rstrip() for line in inspect.cleandoc(rule.doc).splitlines()]
    text = inspect.cleandoc(str(cls.__doc__))  # as Python 3.13 stores it
    if len(lines) == 2 or "\nParameters\n" in text:
        return text
    heads = [f"\n{title}\n{'-' * len(title)}\n" for title in SECTIONS]
    end = min([text.index(head) for head in heads if head in text], default=len(text))
    section = "\n".join(lines)
    return f"{text[:end].rstrip()}\n\n{section}\n{text[end:]}".rstrip()


class Options:
    """Base of dataclasses whose fields are options; adds a section on the options to their docstrings."""

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        inherited = {name: f for base in cls.__mro__[:0:-1] for name, f in _declared(base).items()}
        declared = {name: f for name, f in vars(cls).items() if isinstance(f, Field) and f.metadata}
        for name, f in declared.items():
            if "changes" in f.metadata:
                if name not in inherited:
                    raise TypeError(f"{cls.__name__}.{name} must change an option of a base class; there is none")
                rule, doc = inherited[name].metadata["rule"], f.metadata["changes"]
                rule = rule if doc is None else replace(rule, doc=doc)
                f.metadata = types.MappingProxyType({"rule": rule})
        if cls.__doc__:
            first = next((name for name, f in inherited.items() if f.kw_only is False), None)  # the positional option
            cls.__doc__ = documented(cls, inherited | declared, first)

    def check_options(self) -> None:
        """Check every option against its type and its rule.

        Raises
        ------
        ValueError
            For the first invalid option, in one sentence.
        """
        cls: Any = type(self)
        for name, kind, rule in rules(cls):
            value = getattr(self, name)
            if not (fits(kind, value, rule) and (rule.test is None or rule.test(value))):
                if _is_long(value) and rule.holds(value):
                    raise ValueError(f"{name} must be an integer of at most 64 bits; got {value}")
                raise ValueError(f"{name} must be {rule.words or allowed(kind, rule)}; got {value!r}")


class Checked(Options):
    """`Options` that are checked on construction. NumPy's integers become Python's, which do not overflow."""

    def __post_init__(self) -> None:
        self.check_options()
        cls: Any = type(self)
        for name, _kind, _rule in rules(cls):
            if isinstance(value := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(value))
