"""The layers of the architecture, held against the imports that stand in the files."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# layer -> what it may import from the project at module level
ALLOWED = {
    "opttree/kernels": {"opttree.kernels"},
    "opttree/text.py": set(),
    "opttree/tree.py": {"opttree.kernels", "opttree.text"},
    "opttree/forest.py": {"opttree.kernels", "opttree.tree"},
    "opttree/devices.py": set(),
    "opttree/problems": {"opttree.kernels", "opttree.tree", "opttree.forest", "opttree.devices", "opttree.problems"},
    "opttree/interrupts.py": set(),
    "solvers": {
        "opttree.kernels",
        "opttree.tree",
        "opttree.forest",
        "opttree.problems",
        "opttree.interrupts",
        "opttree.devices",
        "solvers",
    },
    "opttree/checks.py": set(),
    "opttree/chunks.py": set(),
    "opttree/bridge.py": set(),
    "opttree/estimators": {
        "opttree.bridge",
        "opttree.checks",
        "opttree.chunks",
        "opttree.devices",
        "opttree.tree",
        "opttree.forest",
        "opttree.interpret",
        "opttree.preprocessing",
        "opttree.problems",
        "opttree.estimators",
    },
    "opttree/interpret.py": {"opttree.tree", "opttree.forest"},
    "opttree/datasets.py": set(),
    "opttree/io.py": {"opttree.tree", "opttree.checks"},
    "opttree/plotting.py": {"opttree.tree", "opttree.text"},
    "opttree/preprocessing.py": set(),
    "opttree/cli.py": set(),
    "opttree/__init__.py": set(),
}


def files(layer: str) -> list[Path]:
    path = ROOT / layer
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def module_level_imports(path: Path) -> set[str]:
    """Modules imported when the file is imported: not those inside functions or under TYPE_CHECKING."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {f"opttree.{alias.name}" for alias in node.names} if module == "opttree" else {module}
    return found


@pytest.mark.parametrize("layer", ALLOWED)
def test_each_layer_imports_only_what_stands_above_it(layer):
    for path in files(layer):
        for name in module_level_imports(path):
            if name.split(".")[0] in ("opttree", "solvers", "experiments"):
                allowed = ALLOWED[layer]
                assert any(name == a or name.startswith(a + ".") for a in allowed), f"{path} imports {name}"


def test_every_file_belongs_to_a_layer():
    known = {path for layer in ALLOWED for path in files(layer)}
    assert set(files("opttree")) | set(files("solvers")) <= known


@pytest.mark.parametrize("module", ["sklearn", "numpy.random", "time"])
def test_kernels_hold_no_classes_and_import_nothing_but_numpy_and_numba(module):
    for path in files("opttree/kernels"):
        assert module not in module_level_imports(path)
        assert not any(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(path.read_text())))


def test_a_module_that_hides_solvers_is_named(tmp_path):
    (tmp_path / "solvers.py").write_text("")
    code = "from opttree import TAORegressor; TAORegressor().fit([[1.0], [2.0]], [1.0, 2.0])"
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert str(tmp_path / "solvers.py") in done.stderr.splitlines()[-1]


def test_solvers_are_imported_in_one_place_only():
    for path in files("opttree"):
        text = path.read_text()
        assert path.name == "bridge.py" or ("import solvers" not in text and "from solvers" not in text), path


def test_import_opttree_is_light():
    code = (
        "import sys, opttree; "
        "heavy = [m for m in ('pyomo', 'matplotlib', 'pandas', 'sklearn', 'numba', 'scipy') if m in sys.modules]; "
        "assert not heavy, heavy; opttree.TreeProblem; "
        "late = [m for m in ('pyomo', 'matplotlib', 'pandas', 'sklearn') if m in sys.modules]; assert not late, late"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
