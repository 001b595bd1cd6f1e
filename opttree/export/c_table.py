"""How C writes constants and texts, and the encoding of a table as a function of C."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from opttree.tables.encoding import Encoding, Levels, Missing

PER_LINE = 8
KEYWORDS = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
}  # fmt: skip
LEVEL_OF = """/* The number of a text among some, -1 if it is missing, their count if it is unknown. */
static int level_of(const char *text, const char *const *levels, int n)
{
    int k;
    if (text == NULL || text[0] == '\\0')
        return -1;
    for (k = 0; k < n; k++)
        if (strcmp(text, levels[k]) == 0)
            return k;
    return n;
}"""


class Constants:
    """Constants of one type of real numbers, "double" or "float"."""

    def __init__(self, real: str) -> None:
        self.real = real

    def array(self, kind: str, name: str, values: Any) -> str:
        """A constant array; one zero in place of none."""
        numbers = [self.number(v) if kind == self.real else str(int(v)) for v in np.ravel(values)] or ["0"]
        rows = [", ".join(numbers[k : k + PER_LINE]) for k in range(0, len(numbers), PER_LINE)]
        return f"static const {kind} {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(rows) + "\n};"

    def number(self, value: float) -> str:
        """A constant, exact in its type; infinity as the largest number of it."""
        most = float(np.finfo(np.float64 if self.real == "double" else np.float32).max)
        value = float(np.clip(value, -most, most))
        if self.real == "float":
            return f"{float(np.float32(value))!r}f" if np.isfinite(value) else "0.0f"
        return repr(value)


class Table(Constants):
    """The rows of a table as a structure, and the function that makes their features."""

    def __init__(self, encoding: Encoding, name: str, real: str) -> None:
        super().__init__(real)
        self.encoding, self.name = encoding, name
        self.has_text = any(column.kind == "category" for column in encoding.columns)

    def structure(self) -> list[str]:
        """The lines of the header."""
        lines = ['/* A row of the table: a missing number is NaN, a missing text is NULL or "". */', "typedef struct {"]
        for column, field in zip(self.encoding.columns, self.fields(), strict=True):
            kind = "const char *" if column.kind == "category" else f"{self.real} "
            note = " (days since 1970)" if column.kind == "date" else ""
            lines.append(f"    {kind}{field}; /* {comment(column.name)}{note} */")
        encode = f"void {self.name}_encode(const {self.name}_row *row, {self.real} *x);"
        return [*lines, f"}} {self.name}_row;", "", "/* The features of a row. */", encode, ""]

    def fields(self) -> list[str]:
        """Names of the columns as fields of a structure, all different."""
        names: list[str] = []
        for k, column in enumerate(self.encoding.columns):
            plain = re.sub(r"[^A-Za-z0-9_]", "_", column.name)
            usual = re.match(r"[A-Za-z]", plain) and plain not in KEYWORDS and not plain.isupper()  # macros are upper
            plain = plain if usual else f"c_{plain}"
            while plain in names:
                plain = f"{plain}_{k}"
            names.append(plain)
        return names

    def encode(self) -> str:
        """The function that makes the features of a row."""
        real, name = self.real, self.name
        fields = self.fields()
        tables, lines = [], []
        for column, field in enumerate(fields):
            features: list[Any] = [(j, f) for j, f in enumerate(self.encoding.features) if f.column == column]
            if self.encoding.columns[column].kind != "category":
                for j, feature in features:
                    x = f"row->{field}"
                    missing = f"{x} != {x}"
                    if isinstance(feature, Missing):
                        lines.append(f"    x[{j}] = {missing} ? {self.number(1.0)} : {self.number(0.0)};")
                        continue
                    known = x
                    if feature.low is not None:
                        low, high = self.number(feature.low), self.number(feature.high)
                        known = f"({x} < {low} ? {low} : {x} > {high} ? {high} : {x})"
                    lines.append(f"    x[{j}] = {missing} ? {self.number(feature.fill)} : {known};")
                continue
            if not features:
                continue
            levels = sorted({level for _j, f in features if isinstance(f, Levels) for level in f.known})
            if levels:
                texts = ", ".join(map(quoted, levels))
                tables.append(f"static const char *const levels_{column}[{len(levels)}] = {{{texts}}};")
                call = f"level_of(row->{field}, levels_{column}, {len(levels)})"
            else:
                call = f"level_of(row->{field}, NULL, 0)"
            lines.append(f"    k = {call};")
            for j, feature in features:
                if isinstance(feature, Missing):
                    lines.append(f"    x[{j}] = k < 0 ? {self.number(1.0)} : {self.number(0.0)};")
                    continue
                numbers = [feature.number_of(level) for level in levels]
                tables.append(self.array(real, f"level_number_{j}", [*numbers, feature.other]))
                lines.append(f"    x[{j}] = k < 0 ? {self.number(feature.missing)} : level_number_{j}[k];")
        start = ["    int k;"] if any(line.startswith("    k =") for line in lines) else []
        used = lines or ["    (void)row;", "    (void)x;"]
        function = [f"void {name}_encode(const {name}_row *row, {real} *x)", "{", *start, *used, "}"]
        needed = LEVEL_OF if self.has_text and start else ""
        return "\n\n".join(part for part in ["\n\n".join(tables), needed, "\n".join(function)] if part)


def comment(text: str) -> str:
    """Text that cannot end a comment: without backslashes, and with no character that could be half of a mark."""
    plain = "".join(char if char.isprintable() and char not in "\\*?" else " " for char in text)
    return plain.strip() or "a column"


def quoted(text: str) -> str:
    """Text as a constant of C, in UTF-8."""
    out = ""
    for byte in text.encode():
        char = chr(byte)
        out += char if 32 <= byte < 127 and char not in '"\\?' else f"\\{byte:03o}"
    return f'"{out}"'
