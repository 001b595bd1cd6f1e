"""Tables as people have them: read right, or refused in one sentence that names the cause."""

import random

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree.tables.reading import read
from opttree.tables.words import as_clock, as_dates, as_numbers

ROWS = [(f"{1000 + 7.25 * i:.2f}", random.Random(i).choice(["Süd", "Nord"]), f"{2000 + 3 * i:.1f}") for i in range(120)]
NAMES = ("price", "kind", "y")


def joined(separator, rows=(NAMES, *ROWS)):
    return "\n".join(separator.join(row) for row in rows) + "\n"


def english(text):
    return f'"{float(text):,.2f}"'


FILES = {
    "semicolon": joined(";").encode(),
    "tab": joined("\t").encode(),
    "bar": joined("|").encode(),
    "blanks after commas": joined(", ").encode(),
    "cp1252": joined(",").encode("cp1252"),
    "utf-16": joined(",").encode("utf-16"),
    "utf-16 without a mark": joined(",").encode("utf-16-le"),
    "utf-8 with a mark": joined(",").encode("utf-8-sig"),
    "carriage returns": joined(",").replace("\n", "\r").encode(),
    "decimal comma": joined(";", [tuple(cell.replace(".", ",") for cell in row) for row in (NAMES, *ROWS)]).encode(),
    "thousands": joined(",", [NAMES, *((english(a), b, english(c)) for a, b, c in ROWS)]).encode(),
    "currency": joined(";", [NAMES, *((f"$ {a}", b, f"{c} EUR") for a, b, c in ROWS)]).encode(),
    "comments": b"# made by hand\n# in March\n" + joined(",").encode(),
    "title": b"Prices of 2024,,\n\n" + joined(",").encode(),
    "sep=": b"sep=;\n" + joined(";").encode(),
    "trailing comma": joined(",", [(*NAMES, ""), *((*row, "") for row in ROWS)]).encode(),
    "trailing comma of rows": joined(",", [NAMES, *((*row, "") for row in ROWS)]).encode(),
    "index": joined(",", [("", *NAMES), *((str(i), *row) for i, row in enumerate(ROWS))]).encode(),
    "names of rows, as R": joined(",", [NAMES, *((f"r{i}", *row) for i, row in enumerate(ROWS))]).encode(),
    "header repeated": joined(",", [NAMES, *ROWS[:60], NAMES, *ROWS[60:]]).encode(),
    "empty rows": joined(",", [NAMES, *ROWS[:60], ("", "", ""), *ROWS[60:]]).encode(),
}


@pytest.mark.parametrize("form", FILES)
def test_dialects_are_read_as_the_plain_file(tmp_path, form):
    (tmp_path / "plain.csv").write_text(joined(","))
    (tmp_path / "a.csv").write_bytes(FILES[form])
    expected, found = opttree.read_table(tmp_path / "plain.csv"), opttree.read_table(tmp_path / "a.csv")
    assert list(found.columns) == list(NAMES)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.parametrize(
    "mark", ["", "NULL", "n/a", "?", "-", ".", "none", "missing", "N.A.", "unknown", "--", "k.A.", "entfällt"]
)
def test_marks_among_numbers_are_blanks(tmp_path, mark):
    texts = [f"{0.5 * i}" if i % 10 else mark for i in range(100)]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    reading = read(tmp_path / "a.csv")
    assert reading.frame["x"].dtype == np.float64
    assert reading.frame["x"].isna().sum() == 10
    if mark not in ("", "NULL", "n/a"):
        assert repr(mark) in " ".join(reading.of_columns["x"])


def test_texts_among_numbers_are_named(tmp_path):
    texts = [str(i) if i % 10 else f"about {i}" for i in range(100)]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    reading = read(tmp_path / "a.csv")
    assert "text, though 90 of 100 entries are numbers" in reading.of_columns["x"][0]
    assert read(tmp_path / "a.csv", na=texts[::10]).frame["x"].dtype == np.float64


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["$1,234.50", "$99", "($12.00)"], [1234.5, 99, -12]),
        (["1.234,50", "12,5"], [1234.5, 12.5]),
        (["12%", "3 %"], [12, 3]),
        (["12 kg", "7kg"], [12, 7]),
        (["1'234.5", "2"], [1234.5, 2]),
        (["1 234", "64\u00a0000"], [1234, 64000]),
        (["5-", "\u22123", "+2"], [-5, -3, 2]),
        (["1e5", "2E-3"], [1e5, 2e-3]),
        (["abc", "1"], None),
        (["12 kmpl", "3 km/kg"], None),
        (["5-6", "1"], None),
        (["10.0.0.1"], None),
    ],
)
def test_numbers_as_people_write_them(texts, values):
    found = as_numbers(texts, [1] * len(texts))
    assert (None if found is None else [found.values[text] for text in texts]) == values


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-03-01", "2024-03-01"),
        ("2024-03-01T10:30:00", "2024-03-01 10:30"),
        ("2024-03-01T10:30:00+02:00", "2024-03-01 08:30"),
        ("31.12.2024", "2024-12-31"),
        ("31/12/2024 12:30", "2024-12-31 12:30"),
        ("12/31/2024", "2024-12-31"),
        ("12/31/2024 1:05 PM", "2024-12-31 13:05"),
        ("2024/05/06", "2024-05-06"),
        ("Jan 5, 2024", "2024-01-05"),
        ("5 March 2024", "2024-03-05"),
        ("03-Jan-24", "2024-01-03"),
        ("31.02.2024", None),
        ("version 1.2", None),
    ],
)
def test_dates_as_people_write_them(text, day):
    found = as_dates([text])
    assert (None if found is None else found.values[text]) == (None if day is None else pd.Timestamp(day))


def test_dates_that_may_be_meant_in_two_ways_are_said_and_stay_as_they_were(tmp_path):
    texts = ["01/02/2024", "03/04/2024", "02/01/2024"]
    assert "could be day-first as well" in as_dates(texts).how
    assert as_dates(texts, "day-first").values["01/02/2024"] == pd.Timestamp("2024-02-01")
    (tmp_path / "a.csv").write_text("when,y\n" + "".join(f"{d:02d}/03/2024,{d}\n" for d in range(1, 29)))
    (tmp_path / "b.csv").write_text("when,y\n05/03/2024,1\n")
    reading = read(tmp_path / "a.csv")
    assert reading.form.dates == {"when": "%d/%m/%Y"}
    assert read(tmp_path / "b.csv", like=reading.form).frame["when"][0] == pd.Timestamp("2024-03-05")
    assert as_clock(["14:30", "00:15:36"]).values["14:30"] == 14.5


def test_a_header_is_known_by_what_stands_below(tmp_path):
    for text, names in {
        "1.5,2,a\n2.5,3,b\n3.5,4,c\n": ["x0", "x1", "x2"],
        "2019,2020\n1,2\n3,4\n": ["2019", "2020"],
        "a,b\nu,v\nw,z\n": ["a", "b"],
    }.items():
        (tmp_path / "a.csv").write_text(text)
        assert list(read(tmp_path / "a.csv").frame.columns) == names
    assert list(read(tmp_path / "a.csv", header=False).frame.columns) == ["x0", "x1"]


def test_columns_of_one_name_and_blanks_around_texts(tmp_path):
    (tmp_path / "a.csv").write_text("a,a, b \n1,2, x \n3,4,x\n")
    frame = opttree.read_table(tmp_path / "a.csv")
    assert list(frame.columns) == ["a", "a.1", "b"]
    assert frame["b"].tolist() == ["x", "x"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"", {}, "it is empty"),
        (b"a,b\n", {}, "at least one row"),
        (bytes(range(256)) * 10, {}, "zero bytes"),
        (b"a,b\n1,2\n1,2,3\n1,2,3\n", {}, r"no more values in a row than names.*--sep"),
        ("a,b\nü,2\n".encode("cp1252"), {"encoding": "utf-8"}, r"not of encoding utf-8; --encoding"),
        (b"a,b\n1,2\n", {"encoding": "latin-99"}, "encoding must be one that Python knows"),
        (b"a,b\n1,2\n", {"decimal": ";"}, "decimal must be"),
        (b"a,b\n1,2\n", {"sep": "::"}, "sep must be one character"),
        (b"a,b\n1,2\n", {"thousands": ".", "decimal": "."}, "thousands must be one character"),
        (b"a,b\n1,2\n", {"drop": ["c"]}, "drop must name columns"),
        (b"a,b\n1,2\n", {"dates": "american"}, "dates must be one of"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, content, options, words):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=words):
        opttree.read_table(tmp_path / "a.csv", **options)


def test_the_command_line_reads_new_rows_as_those_of_the_training(tmp_path, capsys):
    from opttree.cli import main

    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(200), unit="D")
    lines = [
        f"{v:.3f};{d:%d.%m.%Y};{z}".replace(".", ",", 1) for v, d, z in zip(x, days, (x * 10).round(2), strict=True)
    ]
    text = "x;when;y\n" + "\n".join(
        line.rpartition(";")[0] + ";" + line.rpartition(";")[2].replace(".", ",") for line in lines
    )
    (tmp_path / "a.csv").write_text(text + "\n")
    model = str(tmp_path / "m.json")
    assert main(["fit", str(tmp_path / "a.csv"), "--target", "y", "--method", "tao-axis", "--out", model]) == 0
    out = capsys.readouterr().out
    assert "decimal comma" in out
    assert "dates like" in out
    (tmp_path / "b.csv").write_text("x;when\n1,5;01.03.2024\n?;03.04.2024\n")
    assert main(["predict", model, str(tmp_path / "b.csv")]) == 0
    answers = [float(line) for line in capsys.readouterr().out.split()[1:]]
    assert answers[0] > 8.0
    assert np.isfinite(answers).all()
    assert main(["look", str(tmp_path / "a.csv"), "--target", "y"]) == 0
    assert "predicts the target alone" in capsys.readouterr().out


def test_blank_targets_are_refused_or_left_out(tmp_path, capsys):
    from opttree.cli import main

    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{'' if i % 10 == 0 else i}\n" for i in range(60)))
    fit = ["fit", str(tmp_path / "a.csv"), "--target", "y", "--out", str(tmp_path / "m.json")]
    assert main(fit) == 2
    assert "'y' must have no missing values; got 6: --skip-blank-targets" in capsys.readouterr().err
    assert main([*fit, "--skip-blank-targets"]) == 0
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},name {i}\n" for i in range(60)))
    assert main(fit) == 2
    assert "must have labels with some rows each; got 60 different ones in 60 rows" in capsys.readouterr().err
