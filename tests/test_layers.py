"""The layers of the architecture, held against the imports that stand in the files."""

import ast
import graphlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# layer -> what it may import from the project at module level
ALLOWED = {
    "opttree/threads.py": set(),
    "opttree/clock.py": set(),
    "opttree/compiled.py": set(),
    "opttree/ahead.py": {"opttree.compiled", "opttree.interrupts", "opttree.threads"},
    "opttree/kernels": {"opttree.compiled", "opttree.kernels", "opttree.threads"},
    "opttree/text.py": set(),
    "opttree/encoding.py": {"opttree.text"},
    "opttree/tree_picture.py": {"opttree.text", "opttree.tree"},
    "opttree/export": {
        "opttree.encoding",
        "opttree.estimators.tables",
        "opttree.export",
        "opttree.files",
        "opttree.forest",
        "opttree.io",
        "opttree.models",
        "opttree.text",
        "opttree.tree",
        "opttree.tree_picture",
    },
    "opttree/explain": {
        "opttree.encoding",
        "opttree.explain",
        "opttree.forest",
        "opttree.io",
        "opttree.models",
        "opttree.text",
        "opttree.tree",
    },
    "opttree/html.py": set(),
    "opttree/losses.py": {"opttree.options"},
    "opttree/constraints.py": {"opttree.problems"},
    "opttree/plain.py": {"opttree.encoding", "opttree.structure"},
    "opttree/structure.py": set(),
    "opttree/tree.py": {
        "opttree.encoding",
        "opttree.html",
        "opttree.kernels",
        "opttree.plain",
        "opttree.structure",
        "opttree.text",
    },
    "opttree/forest.py": {"opttree.encoding", "opttree.kernels", "opttree.tree"},
    "opttree/models.py": {"opttree.tree", "opttree.forest"},
    "opttree/devices.py": set(),
    "opttree/options.py": set(),
    "opttree/methods.py": set(),
    "opttree/files.py": set(),
    "opttree/problems": {
        "opttree.files",
        "opttree.losses",
        "opttree.kernels",
        "opttree.tree",
        "opttree.forest",
        "opttree.models",
        "opttree.devices",
        "opttree.options",
        "opttree.structure",
        "opttree.problems",
    },
    "opttree/shrinkage.py": {"opttree.losses", "opttree.problems", "opttree.tree"},
    "opttree/interrupts.py": set(),
    "solvers": {
        "opttree.html",
        "opttree.losses",
        "opttree.chunks",
        "opttree.kernels",
        "opttree.tree",
        "opttree.forest",
        "opttree.models",
        "opttree.problems",
        "opttree.interrupts",
        "opttree.clock",
        "opttree.devices",
        "opttree.options",
        "opttree.threads",
        "solvers",
    },
    "opttree/costs.py": {"opttree.devices", "opttree.methods"},
    "opttree/checks.py": {"opttree.text"},
    "opttree/chunks.py": set(),
    "opttree/bridge.py": set(),
    "opttree/estimators": {
        "opttree.ahead",
        "opttree.bridge",
        "opttree.checks",
        "opttree.chunks",
        "opttree.constraints",
        "opttree.costs",
        "opttree.encoding",
        "opttree.losses",
        "opttree.devices",
        "opttree.options",
        "opttree.tree",
        "opttree.forest",
        "opttree.models",
        "opttree.interrupts",
        "opttree.interpret",
        "opttree.clock",
        "opttree.preprocessing",
        "opttree.threads",
        "opttree.problems",
        "opttree.shrinkage",
        "opttree.estimators",
    },
    "opttree/interpret.py": {"opttree.tree", "opttree.forest"},
    "opttree/datasets.py": set(),
    "opttree/io.py": {
        "opttree.encoding",
        "opttree.forest",
        "opttree.files",
        "opttree.tree",
        "opttree.models",
        "opttree.checks",
    },
    "opttree/plotting.py": {"opttree.encoding", "opttree.models", "opttree.tree", "opttree.tree_picture"},
    "opttree/preprocessing.py": set(),
    "opttree/comparison.py": {"opttree.bridge", "opttree.estimators.tables", "opttree.methods", "opttree.tree"},
    "opttree/warming.py": {"opttree.ahead", "opttree.methods"},
    "opttree/versions.py": {"opttree.threads"},
    "opttree/racing.py": {"opttree.bridge"},
    "opttree/cli_race.py": set(),
    "opttree/cli_common.py": set(),
    "opttree/cli_models.py": {"opttree.cli_common"},
    "opttree/cli_solve.py": {"opttree.cli_common"},
    "opttree/cli.py": {
        "opttree.cli_common",
        "opttree.cli_models",
        "opttree.cli_race",
        "opttree.cli_solve",
        "opttree.methods",
    },
    "opttree/__init__.py": {"opttree.methods"},
}


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


@pytest.mark.parametrize("layer", ALLOWED)
def test_each_layer_imports_only_what_stands_above_it(layer):
    for path in files(layer):
        for name in module_level_imports(path):
            if name.split(".")[0] in ("opttree", "solvers", "experiments"):
                allowed = ALLOWED[layer]
                assert any(name == a or name.startswith(a + ".") for a in allowed), f"{path} imports {name}"


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
    modules = {
        str(path.relative_to(ROOT).with_suffix("")).replace(os.sep, ".").removesuffix(".__init__"): path
        for package in ("opttree", "solvers", "experiments")
        for path in files(package)
    }
    graph = {name: imported_files(path, modules) for name, path in modules.items()}
    assert len(graph["opttree.estimators.get"]) > 5
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names a circle


def test_every_file_belongs_to_a_layer():
    known = {path for layer in ALLOWED for path in files(layer)}
    assert set(files("opttree")) | set(files("solvers")) <= known


KERNELS_IMPORT = {
    *("numpy", "numba", "numba.core", "numba.extending", "llvmlite", "opttree.compiled", "opttree.threads"),
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


@pytest.mark.parametrize("name", ["solvers", "experiments"])
@pytest.mark.parametrize("place", ["{}.py", "{}/__init__.py"])
def test_a_module_that_hides_one_of_ours_is_named_and_not_run(tmp_path, name, place):
    theirs = tmp_path / place.format(name)
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("raise SystemExit('run')")
    done = run_beside(tmp_path, "-c", FIT if name == "solvers" else RACE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: opttree needs its own package {name!r}; {theirs} comes first on sys.path and hides it: "
        "rename it, or move it to a folder that is not on sys.path"
    )


def test_what_a_race_lacks_is_named(tmp_path):
    done = run_beside(tmp_path, "-c", f"import sys; sys.modules['filelock'] = None\n{RACE}")
    assert "ImportError: race needs pip install opttree[experiments]; filelock is missing" in done.stderr


@pytest.mark.slow
def test_a_race_runs_in_a_folder_with_experiments_of_its_own(tmp_path):
    script, folder = tmp_path / "scripts" / "run.py", tmp_path / "work"
    for name in ("experiments", "solvers", "opttree"):  # none of them on the path of the script
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('run')")
    script.parent.mkdir()
    script.write_text(RACE)
    done = run_beside(folder, str(script))
    assert done.returncode == 0, done.stderr
    assert "Race of 1 solvers on 1 problems" in done.stdout


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
