"""Tables as people have them: read right, or refused in one sentence that names the cause."""

import random

import numpy as np
import pandas as pd
import pytest

import opttree
from opttree import TAORegressor
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
    "apostrophes": joined(",", [tuple(f"'{cell}'" for cell in row) for row in (NAMES, *ROWS)]).encode(),
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
    ("cells", "expected"),
    [
        (["'Rome, old'", "'rock ''n'' roll'", "x"], ["Rome, old", "rock 'n' roll", "x"]),
        (["'tis, so", "O'Neil", "x"], None),
        (["6'", "O'Neil", "x"], ["6'", "O'Neil", "x"]),
        (["rock 'n' roll", "'", "x"], ["rock 'n' roll", "'", "x"]),
        (['"a"', "'b'", "x"], ["a", "'b'", "x"]),
    ],
)
def test_apostrophes_around_texts_are_no_part_of_them(tmp_path, cells, expected):
    lines = [f"{cells[i % 3]},{i}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["text,y", *lines]) + "\n")
    if expected is None:
        with pytest.raises(ValueError, match="no more values in a row than names"):
            read(tmp_path / "a.csv")
    else:
        assert read(tmp_path / "a.csv").frame["text"].tolist() == expected * 20


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
        ("2024-03-01T10:30:00Z", "2024-03-01 10:30Z"),
        ("2024-03-01T10:30:00+02:00", "2024-03-01 08:30Z"),
        ("01.03.2024 10:30 -0330", "2024-03-01 14:00Z"),
        ("2024-03-01 10:30:00+02", "2024-03-01 08:30Z"),
        ("25.05.65", "1965-05-25"),
        ("Sat May 25 06:30:00 2024", "2024-05-25 06:30"),
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


def test_a_model_of_dates_with_a_zone_reads_their_file_alike(tmp_path):
    """As clocks of UTC that a model of New York took for its own: answers of 223 of 1249 rows were others."""
    times = pd.date_range("2021-01-01", "2021-12-31", freq="7h", tz="UTC").tz_convert("America/New_York")
    table = pd.DataFrame({"t": times, "x": 1.0})
    model = TAORegressor(12, splits="axis", random_state=0, floor=False)
    model.fit(table, np.random.default_rng(0).normal(size=len(table)))
    table.to_csv(tmp_path / "t.csv", index=False)
    read = opttree.read_table(tmp_path / "t.csv")
    assert str(read["t"].dtype.tz) == "UTC"
    np.testing.assert_array_equal(model.predict(read), model.predict(table))
    table["t"].iloc[:2].astype(str).str[:19].to_frame().to_csv(tmp_path / "u.csv", index=False)
    assert opttree.read_table(tmp_path / "u.csv")["t"].dtype.kind == "M"  # no zone: clocks as they are


def test_dates_that_may_be_meant_in_two_ways_are_said_and_stay_as_they_were(tmp_path):
    texts = ["01/02/2024", "03/04/2024", "02/01/2024"]
    assert "could be day-first as well" in as_dates(texts).how
    assert as_dates(texts, "day-first").values["01/02/2024"] == pd.Timestamp("2024-02-01")
    (tmp_path / "a.csv").write_text("when,y\n" + "".join(f"{d:02d}/03/2024,{d}\n" for d in range(1, 29)))
    (tmp_path / "b.csv").write_text("when,y\n05/03/2024,1\n")
    reading = read(tmp_path / "a.csv")
    assert reading.form.columns["when"].form == "%d/%m/%Y"
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


def fitted(folder, text, target="y", *options):
    """The path of a model of a file."""
    from opttree.cli import main

    (folder / "train.csv").write_text(text, newline="")
    model = str(folder / "m.json")
    fit = ["fit", str(folder / "train.csv"), "--target", target, "--method", "tao-axis", "--test", "0", "--out", model]
    assert main([*fit, *options]) == 0
    return model


def answers(folder, model, text, capsys):
    """What a model answers for a file, or the sentence by which it refuses."""
    from opttree.cli import main

    (folder / "new.csv").write_text(text, newline="")
    capsys.readouterr()
    code = main(["predict", model, str(folder / "new.csv")])
    out, err = capsys.readouterr()
    return [float(line) for line in out.splitlines()[1:]] if code == 0 else err


def test_all_columns_may_have_a_decimal_comma(tmp_path):
    for separator in (";", "\t"):
        for n in (5, 60, 200):
            (tmp_path / "a.csv").write_text(
                f"a{separator}b{separator}y\n" + f"1,50{separator}2,25{separator}3,00\n" * n
            )
            assert opttree.read_table(tmp_path / "a.csv").iloc[0].tolist() == [1.5, 2.25, 3.0]


def test_new_rows_are_read_as_those_of_the_training(tmp_path, capsys):
    values = [0.5 * i for i in range(120)]
    german = "a;y\n" + "".join(f"{v:.2f};{v:.0f}\n".replace(".", ",") for v in values)
    model = fitted(tmp_path, german)
    found = answers(tmp_path, model, "a\n12,50\n13,70\n30,90\n", capsys)
    assert found == pytest.approx([12.5, 13.7, 30.9], abs=3.0)
    assert answers(tmp_path, model, "a\n12,50\n", capsys) == pytest.approx([12.5], abs=3.0)
    bare = fitted(tmp_path, "".join(f"{v},{v * 2}\n" for v in values), "x1")
    assert answers(tmp_path, bare, "1.5,3.0\n", capsys) == pytest.approx([3.0], abs=6.0)
    thousands = fitted(tmp_path, "a;y\n" + "".join(f"{i}.{i:03d};{i}\n" for i in range(1, 120)))
    assert answers(tmp_path, thousands, "a\n60.340\n", capsys) == pytest.approx([60.0], abs=6.0)
    quoted = fitted(tmp_path, "a,y\n" + "".join(f'"{v:.3f}",{v}\n'.replace(".", ",", 1) for v in values))
    assert answers(tmp_path, quoted, 'a\n"3,125"\n"12,5"\n', capsys) == pytest.approx([3.0, 12.5], abs=4.0)
    money = fitted(tmp_path, "a;y\n" + "".join(f"1.{i:03d},50 €;{i}\n" for i in range(120)))
    assert answers(tmp_path, money, "a\n1.003,50 €\n1.100 €\n", capsys) == pytest.approx([3.0, 100.0], abs=8.0)


def test_marks_of_the_training_are_marks_of_new_rows(tmp_path, capsys):
    texts = [str(i) if i % 10 else "pending" for i in range(120)]
    model = fitted(tmp_path, "x,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    for mark in ("pending", "?", ""):
        found = answers(tmp_path, model, f"x,z\n{mark},1\n55,1\n", capsys)
        assert found[1] == pytest.approx(55.0, abs=6.0)
    assert np.isfinite(answers(tmp_path, model, "x\npending\n", capsys)).all()
    assert "must hold numbers" in answers(tmp_path, model, "x\nsoon\n", capsys)


def test_dates_keep_their_meaning(tmp_path, capsys):
    text = "when,y\n" + "".join(f"{1 + i % 12:02d}/{1 + i % 9:02d}/2024,{i % 12}\n" for i in range(120))
    model = fitted(tmp_path, text)
    march = answers(tmp_path, model, "when\n03/04/2024\n", capsys)
    assert march == pytest.approx([2.0], abs=0.6)
    assert "must hold dates" in answers(tmp_path, model, "when\n03/04/2024\n25/12/2024\n", capsys)


def test_no_row_is_lost(tmp_path, capsys):
    (tmp_path / "a.csv").write_text('x,"size\n(m)",y\n' + "".join(f"{i},{i},{i}\n" for i in range(200)))
    assert opttree.read_table(tmp_path / "a.csv").shape == (200, 3)
    text = "x,z,y\n" + "".join(f"{i if i % 7 else ''},{i if i % 5 else ''},{i}\n" for i in range(120))
    model = fitted(tmp_path, text)
    assert len(answers(tmp_path, model, "x,z\n1,2\n,\n30,4\n", capsys)) == 3
    assert len(answers(tmp_path, model, "x,z\n,\n", capsys)) == 1
    single = fitted(tmp_path, "x,y\n" + "".join(f"{i if i % 7 else ''},{i}\n" for i in range(120)))
    assert len(answers(tmp_path, single, "x\n1\n\n30\n", capsys)) == 3
    city = fitted(
        tmp_path, "city,y\n" + "".join(f"{'New York' if i % 2 else 'Los Angeles'},{i % 2}.5\n" for i in range(60))
    )
    assert answers(tmp_path, city, "city\n" + "New York\n" * 20, capsys) == pytest.approx([1.5] * 20)
    titled = fitted(tmp_path, "Prices,,\n" + "x,z,y\n" + "".join(f"{i},{i % 3},{i}\n" for i in range(60)))
    assert answers(tmp_path, titled, "Prices,\nx,z\n30,1\n", capsys) == pytest.approx([30.0], abs=4.0)


def test_indices_of_several_columns_and_of_parts_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=40), "y": rng.normal(size=40)})
    frame.set_index(pd.MultiIndex.from_product([range(8), range(5)])).to_csv(tmp_path / "a.csv")
    assert list(opttree.read_table(tmp_path / "a.csv").columns) == ["x", "y"]
    pd.concat([frame[:20].reset_index(drop=True)] * 2).to_csv(tmp_path / "a.csv")
    assert list(opttree.read_table(tmp_path / "a.csv").columns) == ["x", "y"]


@pytest.mark.parametrize(
    "texts",
    [["0A", "1A", "2A"], ["1K", "500"], ["5%", "0.05"], ["€5", "$5"], ["030 10001", "030 10002"], ["3. März 2024"]],
)
def test_texts_that_are_no_numbers_stay_texts(texts):
    assert as_numbers(texts, [20] * len(texts)) is None


def test_codes_with_leading_zeros_stay_texts(tmp_path):
    (tmp_path / "a.csv").write_text("zip,y\n" + "".join(f"{i % 90:05d},{i}\n" for i in range(100)))
    assert opttree.read_table(tmp_path / "a.csv")["zip"][1] == "00001"


def test_whole_numbers_beside_decimal_commas_are_whole(tmp_path):
    """They were doubles, in which `describe_table` saw no keys."""
    frame = pd.DataFrame({"id": range(1000, 1060), "x": np.linspace(0.5, 9.0, 60), "n": [None, *range(59)]})
    frame.to_csv(tmp_path / "s.csv", index=False, sep=";", decimal=",")
    found = opttree.read_table(tmp_path / "s.csv")
    assert [dtype.kind for dtype in found.dtypes] == ["i", "f", "f"]
    assert "counts the rows" in str(opttree.describe_table(found))
