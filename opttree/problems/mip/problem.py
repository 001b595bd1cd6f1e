"""`MIPTreeProblem`: a `TreeProblem` as a mixed-integer linear program, with encoding and decoding of trees."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opttree.model.tree import Tree
from opttree.problems.exact.leaves import fit_exact_leaves, leaves_in_range
from opttree.problems.mip.candidates import finished, with_margin
from opttree.problems.mip.files import labels, read_values, write_start
from opttree.problems.mip.hypergraph import subtree_bounds
from opttree.problems.mip.statement import CARDS, COMPARED, Card, Formulation, MIPStatement
from opttree.runtime.files import whole_file
from opttree.runtime.interrupts import in_background
from opttree.statement.joint_leaves import NoAnswersError

SLACK = 1e-6  # by which a point may violate a constraint: the tolerance of MIP solvers


@dataclass(frozen=True, eq=False)
class MIPTreeProblem(MIPStatement):
    """A `TreeProblem` over a finite set of candidate splits as a mixed-integer linear program in Pyomo.

    Raises
    ------
    ValueError
        For an invalid option, or a problem that the formulation cannot express exactly, with the reason.

    See Also
    --------
    solvers.MIP : solves it
    ExactTreeProblem : what branch and bound searches

    Notes
    -----
    Variables of the models, for functions among ``constraints`` (branch 0 of the complete tree is the root, 2t + 1 and
    2t + 2 are the children of t; leaves are numbered from left to right):

    - "flow": ``split[t, j, threshold]`` is 1 if branch t splits feature j there; ``leaf[i, l]`` is 1 if row i is at
      leaf l (the flow of its group).
    - "big-m": ``splits[t]`` is 1 if branch t splits, by the weights ``a[t, j]`` and the threshold ``b[t]`` (of ranks,
      if axis-aligned; of features scaled to [0, 1], if oblique); ``leaf[i, l]`` as in "flow". With functions, oblique
      trees are not restricted to one of two mirror images.
    - both: ``value[l, k]`` is a leaf's output (the probability of the second class under log loss), scaled to [0, 1];
      under 0/1 loss ``answers[k, l]`` is 1 for the class that it predicts.
    - "hyperflow": ``split[d, s, name]`` and ``leaf[d, s]``, the actions at state s of d remaining levels, see
      `Hyperflow`.

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017), and "Machine Learning Under a
    Modern Optimization Lens" (2019); Aghaei, Gomez and Vayanos, "Strong optimal classification trees" (2021), for
    flows.

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import MIPTreeProblem
    >>> stated = MIPTreeProblem(TreeProblem(X[:40], y[:40], depth=2, splits="axis"), "flow", n_thresholds=3)
    >>> stated.build().name
    'flow'
    """

    def formulation_of(self, *, complete: bool) -> Formulation:
        """Formulation, fully enumerated.

        Parameters
        ----------
        complete : bool
            Whether every tree is an integer point, see `build`.

        Returns
        -------
        Formulation
            The formulation.
        """
        formulation: Formulation = finished(self.prepare(complete=complete))
        return formulation

    def prepare(self, *, complete: bool = False) -> Generator[None, None, Formulation]:
        """Enumerate what the formulation needs, once.

        Parameters
        ----------
        complete : bool, default False
            Whether every tree is an integer point, see `build`.

        Yields
        ------
        None
            Wherever it can be stopped.
        """
        complete = complete and self.formulation == "hyperflow"  # the others are always complete
        known = self.__dict__.setdefault("_formulations", {})
        if complete not in known:
            known[complete] = yield from self._prepare(complete)
        return known[complete]

    def _prepare(self, complete: bool) -> Generator[None, None, Formulation]:
        # Pyomo is slow to import, so only when a model is needed
        if self.formulation == "hyperflow":
            from opttree.problems.mip.hyperflow import Hyperflow

            return (yield from Hyperflow.prepare(self, complete))
        yield
        if self.formulation in COMPARED:
            from opttree.problems.mip.compared import BinOCT, Sinks

            return (yield from in_background(lambda: (BinOCT if self.formulation == "binoct" else Sinks)(self)))
        subtrees = None
        squares = self.problem.loss_function.form == "quadratic" and self.objective == "exact"
        if self.subtree_rows and not squares and self.problem.splits == "axis" and self.problem.leaves == "constant":
            subtrees = yield from subtree_bounds(self.problem, self.candidates)
        if self.formulation == "flow":
            from opttree.problems.mip.flow import Flow

            return (yield from in_background(lambda: Flow(self, subtrees)))
        from opttree.problems.mip.big_m import BigM

        return (yield from in_background(lambda: BigM(self, subtrees)))

    def build(self, *, complete: bool = True) -> Any:
        """Build a Pyomo model whose objective ``cost`` is the objective of the problem.

        Parameters
        ----------
        complete : bool, default True
            Whether every tree of the candidate splits is an integer point of the model, which therefore stays correct
            when constraints are added. False: "hyperflow" with only the columns that an optimal tree may need (see
            ``reduce``), which are far fewer; its optimum is the problem's, but not under further constraints. Its name
            then ends in "_reduced", and its ``doc`` says so. "flow" and "big-m" are always complete, except that
            "big-m" has only one of two mirror images of an oblique tree.

        Returns
        -------
        pyomo.environ.ConcreteModel
            A new model.

        Raises
        ------
        TooLargeError
            A ValueError, if the columns of "hyperflow" do not fit into memory.

        Notes
        -----
        With squared loss and ``objective="outer"`` the models of "flow" and "big-m" are relaxations: their names end in
        "_outer".

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem(X[:40], y[:40], depth=2, splits="axis")
        >>> stated = opttree.MIPTreeProblem(problem, "flow", n_thresholds=3)
        >>> model = stated.build()                               # a model of Pyomo, to add to
        >>> model.name, len(model.split) > 0
        ('flow', True)
        """
        model = self.formulation_of(complete=complete).build()
        model._built_as = self.formulation, complete
        for extend in self.extensions:
            extend(model)
        return model

    @property
    def card(self) -> Card:
        """Its size and the strength of its linear program, in numbers and words; builds the model.

        Examples
        --------
        >>> import numpy as np
        >>> from opttree import MIPTreeProblem, TreeProblem
        >>> X = np.random.default_rng(0).integers(0, 2, size=(40, 5)).astype(float)
        >>> problem = TreeProblem(X, X[:, 0] != X[:, 1], 2, "axis", loss="zero_one")
        >>> for name in ("flow", "cut"):
        ...     card = MIPTreeProblem(problem, name).card
        ...     print(card.formulation, card.variables, card.rows, card.linear_value)
        flow 298 460 0 or nearly so without rows of subtrees
        cut 123 259 that of flow
        """
        import pyomo.core as pyo

        model = self.build()
        found = [v for v in _variables(model) if not v.fixed]
        rows = sum(1 for _ in model.component_data_objects(pyo.Constraint, active=True))
        whole = sum(v.is_binary() or v.is_integer() for v in found)
        return Card(self.formulation, len(found), whole, rows, *CARDS[self.formulation])

    def encode(self, tree: Tree, model: Any = None) -> Any:
        """Set all variables of a model to a tree, as a MIP start.

        Parameters
        ----------
        tree : Tree
            The tree.
        model : pyomo.environ.ConcreteModel or None, default None
            The model; None: a new, complete one.

        Returns
        -------
        pyomo.environ.ConcreteModel
            The model.

        Raises
        ------
        ValueError
            If the tree is not feasible in the model: it violates a constraint, or the candidate splits nearest to its
            own give no feasible tree, or (reduced "hyperflow") it cannot be optimal.
        """
        if (reason := self.problem.violation(tree)) is not None:
            raise ValueError(f"tree must be feasible; {reason}")
        model = self.build() if model is None else model
        snapped = self.snap(tree)
        if snapped is None or self.problem.violation(snapped) is not None or not self.assign(model, snapped):
            raise ValueError("tree must be a point of the model; a limit or a constraint rules it out")
        return model

    def assign(self, model: Any, tree: Tree) -> bool:
        """Set all variables of a model to a tree of candidate splits.

        Parameters
        ----------
        model : pyomo.environ.ConcreteModel
            The model.
        tree : Tree
            The tree.

        Returns
        -------
        bool
            Whether the tree satisfies the model, with the constraints and fixed variables that were added to it.
        """
        fixed = [(v, v.value) for v in _variables(model) if v.fixed]
        held = self._behind(model).encode(model, tree) and all(v.value == value for v, value in fixed)
        for v, value in fixed:
            v.set_value(value)
        return held and _satisfied(model)

    def contains(self, model: Any, tree: Tree) -> bool:
        """Whether a tree of candidate splits satisfies a model, whose variables keep their values.

        Parameters
        ----------
        model : pyomo.environ.ConcreteModel
            The model.
        tree : Tree
            The tree.

        Returns
        -------
        bool
            True if it does.
        """
        before = [(v, v.value) for v in _variables(model)]
        held = self.assign(model, tree)
        for v, value in before:
            v.set_value(value, skip_validation=True)
        return held

    def decode(self, model: Any) -> Tree:
        """Tree in the variables of a model.

        Leaves are optimal for its splits; they are the model's where optimal linear ones exceed ``coef_bound``, or
        optimal ones violate a constraint that was added.

        Parameters
        ----------
        model : pyomo.environ.ConcreteModel
            A solved model.

        Returns
        -------
        Tree
            The tree.
        """
        tree = self.problem.live(self._behind(model).decode(model))
        exact = self._fitted(tree) or tree
        refitted = self.within_bound(exact) and (not self.extensions or self.contains(model, exact))
        return exact if refitted else tree

    def _behind(self, model: Any) -> Formulation:
        """The formulation that ``model`` was built from; ValueError for any other model."""
        formulation, complete = getattr(model, "_built_as", (None, True))
        if formulation != self.formulation:
            raise ValueError(f"model must be one that build() of this {self.formulation!r} gave; got {model.name!r}")
        return self.formulation_of(complete=complete)

    def write(self, path: str | Path, *, complete: bool = True) -> None:
        """Write the model of `build` to a file, ``.lp`` or ``.mps``, with readable names.

        The file appears complete or not at all.

        Parameters
        ----------
        path : path-like
            Name of the file, which ends in ``.lp`` or ``.mps``.
        complete : bool, default True
            Whether every tree is an integer point, see `build`.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "tree.lp"
        >>> problem = opttree.TreeProblem(X[:40], y[:40], depth=2, splits="axis")
        >>> opttree.MIPTreeProblem(problem, "hyperflow", n_thresholds=3).write(file)
        >>> "Subject To" in file.read_text() or "s.t." in file.read_text()
        True
        """
        path = Path(path)
        if path.suffix not in (".lp", ".mps"):
            raise ValueError(f"path must end in .lp or .mps; got {str(path)!r}")
        import pyomo.environ  # noqa: F401  the writers

        model = self.build(complete=complete)
        with whole_file(path) as unfinished:
            model.write(str(unfinished), io_options={"symbolic_solver_labels": True})
            if path.suffix == ".lp":  # SCIP reads squares only as "x^2"; the others accept either form
                unfinished.write_text(unfinished.read_text().replace(" ^ 2\n", "^2\n"))

    def write_start(self, path: str | Path, tree: Tree, *, complete: bool = True) -> None:
        """Write a tree as a start for the program of `write`, a name and a value per line: SCIP and Gurobi read it.

        Parameters
        ----------
        path : path-like
            Name of the file.
        tree : Tree
            The tree.
        complete : bool, default True
            As it was in `write`.

        Raises
        ------
        ValueError
            As `encode`.
        """
        write_start(self.encode(tree, self.build(complete=complete)), path)

    def read_solution(self, path: str | Path, *, complete: bool = True) -> Tree:
        """Tree of a solution that an optimizer wrote for the program of `write`, decoded as in `decode`.

        Reads the ``.sol`` files of SCIP, Gurobi, HiGHS, CPLEX and CBC. Variables that are not in the file are 0.

        Parameters
        ----------
        path : path-like
            Name of the file.
        complete : bool, default True
            As it was in `write`.

        Returns
        -------
        Tree
            The tree.

        Raises
        ------
        ValueError
            If no variable of the program is in the file.
        """
        model = self.build(complete=complete)
        known, values = labels(model), read_values(path)
        if not set(values) & set(known):
            raise ValueError(f"path must be a solution of this program; {str(path)!r} names none of its variables")
        for name, variable in known.items():
            if not variable.fixed:  # those are constants in the file
                variable.set_value(values.get(name, 0.0), skip_validation=True)
        return self.decode(model)

    def snap(self, tree: Tree) -> Tree | None:
        """Replace each split of a tree by the candidate that routes the fewest of its rows differently.

        Splits that send all rows one way are removed, and leaves are fitted. Hyperplanes of "big-m" are kept, centred
        between the rows.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree or None
            The tree of candidates; None if a hyperplane has less than the margin, or linear leaves exceed
            ``coef_bound``.
        """
        problem = self.problem
        live = problem.live(tree)
        if self.lists_candidates:
            moved = self.candidates.nearest(live, problem.X)
            placed: Tree | None = problem.enforce_min_leaf(problem.live(moved))
        else:
            placed = with_margin(live, problem.X, self.margin)
        exact = None if placed is None else self._fitted(placed)
        return None if exact is None or not self.within_bound(exact) else exact

    def _fitted(self, tree: Tree) -> Tree | None:
        """The tree with optimal leaves; None if none are within the limits of side constraints."""
        try:
            return fit_exact_leaves(self.problem, tree)
        except NoAnswersError:
            return None

    def within_bound(self, tree: Tree) -> bool:
        """Whether the linear leaves of a tree are within ``coef_bound``.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        bool
            True if they are; always true for "hyperflow".
        """
        if self.problem.leaves == "constant" or self.formulation == "hyperflow":
            return True
        values, coefs = leaves_in_range(self.problem, tree)
        return bool(
            max(np.abs(values).max(), np.abs(coefs).max()) <= self.coef_bound * (1.0 + 1e-6)
        )  # HiGHS's tolerance


def _variables(model: Any) -> Any:
    from pyomo.core import Var

    return model.component_data_objects(Var)


def _satisfied(model: Any) -> bool:
    """Whether the values of the variables satisfy the constraints; not where a variable has none."""
    from pyomo.core import Constraint, value

    for c in model.component_data_objects(Constraint, active=True):
        body = value(c.body, exception=False)
        low, high = (value(bound) for bound in (c.lower, c.upper))
        if body is None or body < (low if low is not None else -np.inf) - SLACK:
            return False
        if body > (high if high is not None else np.inf) + SLACK:
            return False
    return True
