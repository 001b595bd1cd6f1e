"""How C writes constants, and the encoding of a table as a function of C."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from opttree.export.columns import Read, columns_read, numbers_of, told
from opttree.runtime.escape import c_comment, c_text
from opttree.tables.encoding import Encoding, Missing, Value

PER_LINE = 8
KEYWORDS = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while",
    "linux", "unix", "i386",  # macros of some compilers
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
CODE_OF = """/* The number of a code among some, -1 if it is missing, their count if it is unknown. */
static int code_of(REAL code, const REAL *codes, int n)
{
    int k;
    if (code != code)
        return -1;
    for (k = 0; k < n; k++)
        if (code == codes[k])
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
        self.columns = columns_read(encoding)
        self.has_text = any(read.column.kind == "category" for read in self.columns)

    def structure(self) -> list[str]:
        """The lines of the header."""
        start = (
            '/* The columns of the table that the model reads: a missing number is NaN, a missing text NULL or "". */'
        )
        lines = [start, "typedef struct {"]
        for read, field in zip(self.columns, self.fields(), strict=True):
            kind = "const char *" if read.column.kind == "category" else f"{self.real} "
            note = " (days since 1970)" if read.column.kind == "date" else ""
            lines.append(f"    {kind}{field}; /* {c_comment(read.column.name)}{note} */")
        if not self.columns:
            lines.append("    char none; /* the model reads no column */")
        encode = f"void {self.name}_encode(const {self.name}_row *row, {self.real} *x);"
        return [*lines, f"}} {self.name}_row;", "", "/* The features of a row. */", encode, ""]

    def fields(self) -> list[str]:
        """Names of the columns that are read as fields of a structure, all different."""
        names: list[str] = []
        for read in self.columns:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", read.column.name)
            usual = re.match(r"[A-Za-z]", plain) and plain not in KEYWORDS and not plain.isupper()  # macros are upper
            plain = plain if usual else f"c_{plain}"
            while plain in names:
                plain = f"{plain}_{read.number}"
            names.append(plain)
        return names

    def encode(self) -> str:
        """The function that makes the features of a row."""
        real, name = self.real, self.name
        tables: list[str] = []
        zero = self.number(0.0)
        unread = sorted({*range(self.encoding.n_features)} - {j for read in self.columns for j, _f in read.features})
        lines = [f"    x[{j}] = {zero};" for j in unread]
        for read, field in zip(self.columns, self.fields(), strict=True):
            if read.column.is_category:
                lines += self.category(read, field, tables)
            else:
                lines += [f"    x[{j}] = {self.feature(f, f'row->{field}')};" for j, f in read.features]
        levels = any(read.column.is_category for read in self.columns)
        start = ["    int k;"] if levels else [] if self.columns else ["    (void)row;"]
        function = [f"void {name}_encode(const {name}_row *row, {real} *x)", "{", *start, *lines, "}"]
        has_code = any(read.column.kind == "code" for read in self.columns)
        parts = [*tables, LEVEL_OF if self.has_text else "", CODE_OF.replace("REAL", real) if has_code else ""]
        return "\n\n".join(part for part in [*parts, "\n".join(function)] if part)

    def feature(self, feature: Any, x: str) -> str:
        """A feature of the number ``x``: NaN, which is ``x - x``, where that is infinite."""
        if isinstance(feature, Missing):
            return f"{x} != {x} ? {self.number(1.0)} : {x} - {x}"
        known = x
        if isinstance(feature, Value) and feature.low is not None and feature.high is not None:
            low, high = self.number(feature.low), self.number(feature.high)
            known = f"{x} - {x} != {self.number(0.0)} ? {x} - {x} : {x} < {low} ? {low} : {x} > {high} ? {high} : {x}"
        return f"{x} != {x} ? {self.number(feature.fill)} : {known}"

    def category(self, read: Read, field: str, tables: list[str]) -> list[str]:
        """The lines for the features of a category; its levels and their numbers are added to ``tables``."""
        levels, codes = told(read)
        if read.column.kind == "code":
            constants = self.array(self.real, f"levels_{read.number}", codes)
            find = "code_of"
        else:
            texts = ", ".join(map(c_text, levels))
            constants = f"static const char *const levels_{read.number}[{len(levels)}] = {{{texts}}};"
            find = "level_of"
        if levels:
            tables.append(constants)
        lines = [f"    k = {find}(row->{field}, {f'levels_{read.number}' if levels else 'NULL'}, {len(levels)});"]
        for j, feature in read.features:
            *numbers, missing = numbers_of(feature, levels)
            tables.append(self.array(self.real, f"level_number_{j}", numbers))
            lines.append(f"    x[{j}] = k < 0 ? {self.number(missing)} : level_number_{j}[k];")
        return lines
