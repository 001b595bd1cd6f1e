"""The layers of the architecture, held against the imports that stand in the files."""

import ast
import graphlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LAYERS = [  # from the ground up: a room imports from rooms of the lines above its own only, by name or by a string
    {"runtime"},
    {"kernels", "tables", "methods"},
    {"wide"},
    {"model"},
    {"statement", "explain"},
    {"plotting"},
    {"problems", "export"},
    {"solvers"},
    {"estimators"},
    {"doors", "cli"},  # doors: what stands loose in opttree, each a public name
    {"experiments"},
]
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}
LATE = ROOT / "opttree" / "model" / "late.py"  # the one table of doors that open upwards
LONGEST_DOOR = 40  # lines


def files(layer: str) -> list[Path]:
    path = ROOT / layer
    found = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    assert found, f"{layer} holds no files"
    return found


def imports(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"imports are absolute; line {node.lineno} has {ast.unparse(node)}"
            module = str(node.module)
            found |= {f"opttree.{alias.name}" for alias in node.names} if module == "opttree" else {module}
    return found


def that_run(node: ast.AST, *, in_functions: bool) -> Iterator[ast.AST]:
    """The nodes below that run, when the file is imported or also when its functions are: none under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        guarded = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        if not guarded and (in_functions or not function):
            yield child
            yield from that_run(child, in_functions=in_functions)


def module_level_imports(path: Path) -> set[str]:
    return imports(that_run(ast.parse(path.read_text()), in_functions=False))


def test_imports_run_at_module_level_are_found(tmp_path):
    (tmp_path / "one.py").write_text(
        "import a\ntry:\n    import b.c\nexcept ImportError:\n    from d import e\n"
        "if TYPE_CHECKING:\n    import f\ndef g():\n    import h\nclass I:\n    from opttree import j\n"
    )
    assert module_level_imports(tmp_path / "one.py") == {"a", "b.c", "d", "opttree.j"}


MODULES = {
    str(path.relative_to(ROOT).with_suffix("")).replace(os.sep, ".").removesuffix(".__init__"): path
    for package in ("opttree", "solvers", "experiments")
    for path in files(package)
}


def room_of(module: str) -> str:
    """The folder of opttree that holds a module, "doors" for what stands loose there, or another package's name."""
    package, _dot, inside = module.partition(".")
    if package != "opttree":
        return package
    folder = inside.partition(".")[0]
    return folder if (ROOT / "opttree" / folder).is_dir() and folder else "doors"


def named_modules(path: Path) -> set[str]:
    """The modules of the project that a file names, in imports wherever they stand, and in strings."""
    found = imported_files(path, MODULES)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            name = node.value.partition(":")[0]
            found |= {name} if name in MODULES and MODULES[name] != path else set()
    return found


def test_strings_and_late_imports_are_seen(tmp_path):
    (tmp_path / "one.py").write_text(
        'place = "opttree.export.html:to_html"\ndef f():\n    from solvers.core import base\n'
    )
    assert named_modules(tmp_path / "one.py") == {"opttree.export.html", "solvers.core.base"}


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES.keys())
def test_a_room_stands_on_those_below_it_alone(path):
    own = room_of(next(name for name, place in MODULES.items() if place == path))
    for name in named_modules(path) if path != LATE else set():
        other = room_of(name)
        assert other == own or FLOOR[other] < FLOOR[own], f"{path} of {own} names {name} of {other}"


def test_what_stands_loose_is_a_door():
    for path in sorted((ROOT / "opttree").glob("*.py")):
        assert path.name == "__init__.py" or len(path.read_text().splitlines()) <= LONGEST_DOOR, path


def imported_files(path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the project that a file names in imports, wherever they stand: for types, and in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else str(node.module) for name in inner}
    return {name for name in found if name in modules and modules[name] != path}


def test_no_files_import_each_other_in_a_circle():
    graph = {name: imported_files(path, MODULES) for name, path in MODULES.items()}
    assert len(graph["opttree.estimators.get"]) > 5
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names a circle


KERNELS_IMPORT = {
    *(
        "numpy",
        "numba",
        "numba.core",
        "numba.extending",
        "llvmlite",
        "opttree.runtime.compiling.calls",
        "opttree.runtime.compiling.compiled",
        "opttree.runtime.threads",
    ),
    *("collections", "functools", "math", "pathlib", "zlib"),  # of the standard library
}


def test_kernels_hold_no_classes_and_import_little_but_numpy_and_numba():
    for path in files("opttree/kernels"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        foreign = {name for name in imports(nodes) if name.split(".")[:2] != ["opttree", "kernels"]}
        assert foreign <= KERNELS_IMPORT, path
        assert not any(isinstance(node, ast.ClassDef) for node in nodes), path
        assert not any(isinstance(node, ast.Attribute) and node.attr == "random" for node in nodes), path


FIT = "from opttree import TAORegressor; TAORegressor().fit([[1.0], [2.0]], [1.0, 2.0])"
RACE = """
import opttree
if __name__ == "__main__":
    problem = opttree.TreeProblem([[0.0], [1.0], [2.0]], [0.0, 0.0, 1.0], depth=1, splits="axis")
    print(opttree.race({"one": problem}, "CartInit()", 5.0))
"""


def run_beside(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a folder of the user's own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def put(place: Path, code: str = "raise SystemExit('run')") -> Path:
    """A module, by default one that says when it is imported."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(code)
    return place


@pytest.mark.parametrize(("place", "code"), [("solvers.py", RACE), ("solvers/__init__.py", FIT)], ids=["race", "fit"])
def test_a_module_that_hides_our_solvers_is_named_and_not_run(tmp_path, code, place):
    theirs = put(tmp_path / place)
    done = run_beside(tmp_path, "-c", code)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: opttree needs its own package 'solvers'; {theirs} comes first on sys.path and hides it: "
        "rename it, or move it to a folder that is not on sys.path"
    )


def test_no_solver_knows_of_races():
    for name, path in MODULES.items():
        if name.startswith("solvers") and not name.startswith("solvers.races"):
            assert not any(other.startswith("solvers.races") for other in named_modules(path)), path


def test_what_a_race_lacks_is_named(tmp_path):
    pytest.importorskip("cloudpickle")
    done = run_beside(tmp_path, "-c", f"import sys; sys.modules['filelock'] = None\n{RACE}")
    assert "ImportError: race needs pip install opttree[experiments]; filelock is missing" in done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_a_race_runs_beside_experiments_of_ones_own(tmp_path):
    put(tmp_path / "experiments.py")
    done = run_beside(tmp_path, "-c", RACE)
    assert done.returncode == 0, done.stderr
    assert "Race of 1 solvers on 1 problems" in done.stdout


OWN = """
from dataclasses import dataclass
from solvers import Solver, Step

@dataclass(frozen=True)
class Own(Solver):
    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())
"""


@pytest.mark.long
def test_a_race_runs_in_any_folder_with_solvers_that_lie_beside_the_script(tmp_path):
    for name in ("experiments", "solvers", "opttree", "random"):  # none of them on the path of the script
        put(tmp_path / "work" / name / "__init__.py")
    put(tmp_path / "scripts" / "mine.py", OWN)
    race = RACE.replace("import opttree\n", "import mine, opttree\nfrom solvers import MIP\n", 1)
    script = put(tmp_path / "scripts" / "run.py", race.replace('"CartInit()"', "[mine.Own(), MIP()]"))
    done = run_beside(tmp_path / "work", str(script))
    assert done.returncode == 0, done.stderr
    assert "Race of 2 solvers on 1 problems, 5 s each; 1 optima proved" in done.stdout


def test_solvers_are_imported_in_one_place_only():
    for path in files("opttree"):
        names = imports(that_run(ast.parse(path.read_text()), in_functions=True))
        assert path.name == "bridge.py" or not any(name.split(".")[0] == "solvers" for name in names), path


def test_import_opttree_is_light():
    code = (
        "import sys, opttree; "
        "heavy = [m for m in ('pyomo', 'matplotlib', 'pandas', 'sklearn', 'numba', 'scipy') if m in sys.modules]; "
        "assert not heavy, heavy; opttree.TreeProblem; "
        "late = [m for m in ('pyomo', 'matplotlib', 'pandas', 'sklearn') if m in sys.modules]; assert not late, late"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_problems_are_changed_by_their_own_methods_alone():
    """`dataclasses.replace` would forget classes without rows: `restated`, `with_rows` and `sample` keep them."""
    named = re.compile(r"(self\.|stated\.|smooth\.)?(\w*problem|raw|free|train|valid)")
    for package in ("opttree", "solvers", "experiments"):
        for path in files(package):
            if path == ROOT / "opttree" / "statement" / "problem.py":
                continue  # holds the one place, in `TreeProblem.with_rows`
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "replace" and node.args:
                    first = ast.unparse(node.args[0])
                    assert not named.fullmatch(first), f"{path}:{node.lineno} replaces {first}; use restated"
