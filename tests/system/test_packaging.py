"""The release: sdist and wheel hold everything, and the wheel works in an environment without extras."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import opttree

ROOT = Path(__file__).parents[2]
CARRIED = (
    "opttree/**/*.py",
    "opttree/**/*.cu",
    "opttree/**/*.json",
    "opttree/**/*.html",
    "opttree/py.typed",
    "solvers/**/*.py",
    "solvers/**/*.html",
    "solvers/py.typed",
    "experiments/*.py",
    "experiments/benchmarks/*.py",
    "experiments/coverage.toml",
    "experiments/protocols/*.toml",
    "experiments/published/*.csv",
)
SOURCES = ("docs/**/*.md", "docs/examples/**/*.py", "tests/**/*.py", "notebooks/*", "experiments/results/**/*.csv")

pytest.importorskip("build")
pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="there is no source tree")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Folder with an sdist of the tracked files, and the wheel made from it."""
    place = tmp_path_factory.mktemp("built")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository: which files belong to the source is not known")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (place / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / "source" / name)
    if "OPTTREE_DIST" in os.environ:
        shutil.copytree(ROOT / os.environ["OPTTREE_DIST"], place / "dist")
        return place
    build = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", place / "dist", place / "source"]
    made = subprocess.run(build, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    return place


def files(pattern, source):
    return {path.relative_to(source).as_posix() for path in source.glob(pattern) if path.is_file()}


@pytest.mark.slow
def test_wheel_holds_everything(built):
    (wheel,) = (built / "dist").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    for pattern in CARRIED:
        wanted = files(pattern, built / "source")
        assert wanted, f"{pattern} names no file"
        assert wanted <= held, f"{pattern}: {sorted(wanted - held)[:5]}"
    assert not [name for name in held if name.startswith(("tests/", "docs/"))]


@pytest.mark.slow
def test_sdist_holds_everything(built):
    (sdist,) = (built / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    for pattern in CARRIED + SOURCES:
        wanted = files(pattern, built / "source")
        assert wanted, f"{pattern} names no file"
        assert wanted <= held, f"{pattern}: {sorted(wanted - held)[:5]}"


@pytest.mark.long
def test_wheel_without_extras_does_what_start_says(built, tmp_path):
    (wheel,) = (built / "dist").glob("*.whl")
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv")
    run(uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env"))
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    run(uv, "pip", "install", "--quiet", "--python", python, str(wheel))
    for name in ("start.md", "rentals.csv"):
        shutil.copy(built / "source" / "docs" / name, tmp_path)
    run(python, "-m", "doctest", "start.md", cwd=tmp_path)
    for line in commands():
        run(str(scripts / "opttree"), *line.split()[1:], cwd=tmp_path)
    assert {"model.json", "tree.png", "predictions.csv", "model.c"} <= {path.name for path in tmp_path.iterdir()}
    listed = run(python, "-m", "experiments", "list", cwd=tmp_path, check=False)
    assert "opttree[experiments]" in listed or "get_table8" in listed


def commands():
    """The five commands of the start page."""
    block = (ROOT / "docs" / "start.md").read_text(encoding="utf-8").split("```sh\n", 1)[1].split("```", 1)[0]
    return [line for line in block.splitlines() if line.startswith("opttree ")]


def run(*command, cwd=None, check=True):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_start_has_six_commands():
    assert len(commands()) == 6


def test_version_is_told_alike():
    for name, pattern in (("CITATION.cff", r"^version: (.*)$"), ("recipe/recipe.yaml", r"^  version: (\d.*)$")):
        found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.M)
        assert found is not None
        assert found.group(1) == opttree.__version__, name


def test_recipe_has_the_requirements_of_setup_cfg():
    stated = (ROOT / "setup.cfg").read_text(encoding="utf-8").split("install_requires =\n", 1)[1].split("\n\n", 1)[0]
    wanted = {
        line.strip().replace(">=", " >=").replace("matplotlib ", "matplotlib-base ") for line in stated.splitlines()
    }
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8").split("  run:\n", 1)[1].split("\n\n", 1)[0]
    assert wanted == {line.strip("- ") for line in recipe.splitlines()} - {"python >=3.11"}
