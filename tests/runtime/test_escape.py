"""Texts that leave for terminals, spreadsheets and generated code."""

import csv
import io
import json
import re

import pytest

from opttree.runtime import escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("red\x1b[2J", "red\\x1b[2J"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc80", "\\udc80"),
        ("Köln 東京 a\u00a0b", "Köln 東京 a\u00a0b"),
        (3.5, "3.5"),
    ],
)
def test_terminals_get_what_prints(text, shown):
    assert escape.plain(text) == shown


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-x", "@sum", "\tx", "\r=1", "\n=1", " =1+1", "\uff1d1+1"])
def test_spreadsheets_get_no_formulas(text):
    assert escape.cell(text) == f"'{text}"


@pytest.mark.parametrize("entry", ["red", "", "+", "-", "--", "-3.5", "+1,200", "-1e-05", "a=b", 3.5, None, -2])
def test_spreadsheets_get_other_entries_as_they_are(entry):
    assert escape.cell(entry) is entry


@pytest.mark.parametrize("text", ['a"b', "a'b", "*/ int x;", "a\\", "??/", "\n#x", "</script>", "\\N", '"];b'])
def test_code_gets_texts_that_end_nothing(text):
    assert escape.sql_name(text)[1:-1].replace('""', "") == text.replace('"', "")
    assert escape.sql_text(text)[1:-1].replace("''", "") == text.replace("'", "")
    assert not re.search(r"[*\\?\n]", escape.c_comment(text))
    assert re.fullmatch(r'"([^"\\?\n]|\\[0-7]{3})*"', escape.c_text(text))
    assert re.fullmatch(r'"([^"\\\n]|\\.)*"', escape.dot_text(text, text))
    assert not re.search(r"[<>\n]", escape.html_text(text))
    assert "<" not in escape.script_data([text])
    assert json.loads(escape.script_data([text])) == [text]


def test_files_of_cells_are_read_back():
    file = io.StringIO()
    csv.writer(file).writerow([escape.cell("\r=1"), escape.cell("-1.5")])
    assert next(csv.reader(io.StringIO(file.getvalue(), newline=""))) == ["'\r=1", "-1.5"]
