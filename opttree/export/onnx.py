"""ONNX: models as files for onnxruntime and other runtimes, and a converter for skl2onnx's pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.export import graph as graphs
from opttree.export.columns import as_read
from opttree.export.record import Exporter
from opttree.model.files import as_saved
from opttree.model.forest import Forest
from opttree.model.structure import used_features
from opttree.model.tree import Tree
from opttree.runtime.files import whole_file
from opttree.tables.encoding import Encoding

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10


class OnnxGraph:
    """Nodes and constants of a graph of the package onnx."""

    def __init__(self, dtype: str, columns: Iterable[str] = ()) -> None:
        self.real: Any = np.dtype(dtype).type
        self.prefix = "opttree"
        while any(name.startswith(self.prefix) for name in columns):
            self.prefix += "_"
        self.has_tree_ensemble = True
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        from onnx import helper, numpy_helper

        name = f"{self.prefix} {op} {len(self.nodes)}"
        given = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, domain=domain, **given))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array."""
        from onnx import numpy_helper

        name = f"{self.prefix} constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name


def to_onnx(model: Any, path: str | Path | None = None, *, dtype: Literal["float64", "float32"] = "float64") -> Any:
    """ONNX graph of a model.

    Inputs: "X" (n, p); of a model with the encoding of a table, one (n, 1) input for every column that it reads, by its
    name: numbers (NaN where missing; booleans 0 or 1, dates in days since 1970) and categories whose levels are numbers
    of type ``dtype``, other categories as texts ("" where missing). A model that reads none has no inputs, and answers
    one row. Outputs: "variable" (n, K), or "label" (n,), booleans as 0 and 1, and "probabilities" (n, K); where a
    column has such a name, with "_of_model" after it.

    Where `predict` would refuse a row, its numbers and probabilities are NaN, and its label is "", -2^63 of whole
    numbers and booleans, or NaN: for infinity, and for NaN in a model without an encoding.

    Axis-aligned trees become one operator TreeEnsemble, which returns leaves; oblique ones a matrix product for all
    splits and a walk of Gather operators. In float64 the answers are those of `predict` but for rounding; in float32
    rows within the rounding of a threshold may take its other side.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    path : path-like or None, default None
        Where to write the graph, if anywhere.
    dtype : {"float64", "float32"}, default "float64"
        Type of the numbers.

    Returns
    -------
    onnx.ModelProto
        The graph.

    Raises
    ------
    ImportError
        Without the package onnx: ``pip install opttree[export]``.
    ValueError
        If the model has transformed features, reads a column without a name, or answers differently from its
        estimator.

    See Also
    --------
    export.register_skl2onnx : for pipelines
    export.to_c : without a runtime

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> graph = opttree.to_onnx(model)
    >>> graph.graph.input[0].name
    'X'
    """
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}")
    try:
        import onnx
        from onnx import TensorProto, helper
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install opttree[export]") from error
    saved = as_saved(model, curves=True)
    inside = as_read(saved.tree)
    number = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
    if inside.encoding is None:
        graph = OnnxGraph(dtype)
        inputs = [helper.make_tensor_value_info("X", number, [None, inside.n_features])]
        X = "X"
    else:
        read = {place: inside.encoding.columns[place] for place in sorted(inside.encoding.read)}
        if any(not column.name for column in read.values()):
            raise ValueError("to_onnx needs columns with names; the model reads one that is called ''")
        graph = OnnxGraph(dtype, [column.name for column in read.values()])
        kinds = {"category": TensorProto.STRING}
        inputs = [
            helper.make_tensor_value_info(column.name, kinds.get(column.kind, number), [None, 1])
            for column in read.values()
        ]
        X = graphs.encoded(graph, inside.encoding, {place: column.name for place, column in read.items()})
    names, types = _answers(graph, inside, X)
    taken = {value.name for value in inputs}
    types = [(_beside(name, taken), t, s) for name, t, s in types]
    outputs = [helper.make_tensor_value_info(name, number if t is None else t, s) for name, t, s in types]
    for name, (out, _t, _s) in zip(names, types, strict=True):
        graph.nodes.append(helper.make_node("Identity", [name], [out]))
    title = saved.method or type(inside).__name__
    whole = helper.make_graph(graph.nodes, title, inputs, outputs, graph.constants)
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(graphs.ML, ML_OPSET)]
    proto = helper.make_model(whole, opset_imports=domains, producer_name="opttree", ir_version=IR_VERSION)
    onnx.checker.check_model(proto)
    if path is not None:
        with whole_file(path) as file:
            file.write_bytes(proto.SerializeToString())
    return proto


def _beside(name: str, taken: set[str]) -> str:
    """A name that none of the inputs has."""
    while name in taken:
        name += "_of_model"
    return name


def _answers(graph: Any, model: Tree | Forest, X: str) -> tuple[list[str], list[tuple[str, Any, list[Any]]]]:
    """Names of the answers within the graph; name, type (None: a number) and shape of each as an output."""
    X, doubt = graphs.checked(graph, X, used_features(model))
    if isinstance(model, Forest) and model.curves is not None:
        X = graphs.on_curves(graph, model.curves, X)
    outputs = graphs.scores(graph, model, X)
    if model.classes is None:
        answers = graph.node("Add", outputs, doubt) if doubt else outputs
        return [answers], [("variable", None, [None, model.n_outputs])]
    from onnx import TensorProto

    labels = model.classes
    is_whole = labels.dtype.kind in "iub"
    kind = TensorProto.INT64 if is_whole else TensorProto.DOUBLE if labels.dtype.kind == "f" else TensorProto.STRING
    table = labels.astype(np.int64 if is_whole else np.float64 if labels.dtype.kind == "f" else object)
    label = graph.node("Gather", graph.constant(table), graph.node("ArgMax", outputs, axis=1, keepdims=0), axis=0)
    shares = graphs.shares(graph, model, outputs)
    if doubt:
        none = np.array(
            [np.iinfo(np.int64).min if is_whole else np.nan if table.dtype.kind == "f" else ""], table.dtype
        )
        refused = graph.node("Reshape", graph.node("IsNaN", doubt), graph.constant(np.array([-1])))
        label = graph.node("Where", refused, graph.constant(none), label)
        shares = graph.node("Add", shares, doubt)
    return [label, shares], [("label", kind, [None]), ("probabilities", None, [None, len(labels)])]


# ---- skl2onnx ---------------------------------------------------------------------------------------------------


class Skl2OnnxGraph:
    """Nodes and constants of a graph that skl2onnx is building."""

    def __init__(self, scope: Any, container: Any, dtype: Any) -> None:
        self.scope, self.container, self.real = scope, container, dtype
        self.has_tree_ensemble = False  # skl2onnx stops at version 3 of its domain

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        from onnx import numpy_helper

        name = self.scope.get_unique_variable_name(op)
        given = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        version = 2 if domain == graphs.ML else OPSET
        self.container.add_node(
            op, list(inputs), [name], op_domain=domain, op_version=version,
            name=self.scope.get_unique_operator_name(op), **given,
        )  # fmt: skip
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array."""
        from onnx import numpy_helper

        name = self.scope.get_unique_variable_name("constant")
        array = np.asarray(array, order="C")
        kind = numpy_helper.from_array(array).data_type
        content = [str(v).encode() for v in array.ravel()] if array.dtype.kind == "O" else array.ravel().tolist()
        self.container.add_initializer(name, kind, list(array.shape), content)
        return name


def register_skl2onnx() -> None:
    """Teach skl2onnx all estimators of opttree, so that pipelines with them convert.

    Use ``target_opset={"": 18, "ai.onnx.ml": 3}`` or later ones in `skl2onnx.to_onnx`. The numbers of the graph are
    those of its input, float32 or float64. An estimator that was fitted to a table takes inputs of shape (n, 1)
    with the names of the columns that it reads; if they have other names, one for every column that it reads, or one
    for every column of the table, in the order of the table.

    Raises
    ------
    ImportError
        Without the package skl2onnx: ``pip install opttree[export]``.

    See Also
    --------
    opttree.to_onnx : a model alone

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skl2onnx import to_onnx
    >>> opttree.export.register_skl2onnx()
    >>> pipeline = make_pipeline(StandardScaler(), opttree.TAORegressor(max_depth=1, random_state=0)).fit(X, y)
    >>> len(to_onnx(pipeline, X[:1]).graph.node) > 1
    True
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise ImportError("register_skl2onnx needs skl2onnx: pip install opttree[export]") from error
    from opttree.methods.table import estimators

    for name, module in estimators().items():
        kind = getattr(import_module(module), name)
        options = {"zipmap": [True, False, "columns"], "nocl": [True, False]} if name.endswith("Classifier") else None
        update_registered_converter(kind, f"Opttree{name}", _shapes, _convert, options=options)


def _number_type(operator: Any) -> Any:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    double = any(isinstance(variable.type, DoubleTensorType) for variable in operator.inputs)
    return DoubleTensorType if double else FloatTensorType


def _shapes(operator: Any) -> None:
    """Types and shapes of the outputs of an estimator, for skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model = as_saved(operator.raw_operator, curves=True).tree
    rows, number = operator.inputs[0].get_first_dimension(), _number_type(operator)
    if model.classes is None:
        operator.outputs[0].type = number([rows, model.n_outputs])
        return
    kinds = dict.fromkeys("iub", Int64TensorType) | {"f": DoubleTensorType}
    kind = kinds.get(model.classes.dtype.kind, StringTensorType)
    operator.outputs[0].type = kind([rows])
    operator.outputs[1].type = number([rows, len(model.classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of an estimator to a graph of skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType

    model = as_read(as_saved(operator.raw_operator, curves=True).tree)
    double = _number_type(operator) is DoubleTensorType
    graph = Skl2OnnxGraph(scope, container, np.float64 if double else np.float32)
    inputs = [variable.full_name for variable in operator.inputs]
    if model.encoding is not None:
        X = graphs.encoded(graph, model.encoding, _columns(graph, operator, model.encoding), inputs[0])
    else:
        X = inputs[0] if len(inputs) == 1 else graph.node("Concat", *inputs, axis=1)
    names, _types = _answers(graph, model, X)
    for name, variable in zip(names, operator.outputs, strict=True):
        container.add_node("Identity", [name], [variable.full_name], name=scope.get_unique_operator_name("Identity"))


def _columns(graph: Any, operator: Any, encoding: Encoding) -> dict[int, str]:
    """The inputs of the columns that are read, by the numbers of the columns; numbers as those of the graph."""
    from onnx.helper import np_dtype_to_tensor_dtype
    from skl2onnx.common.data_types import StringTensorType

    inputs, read = operator.inputs, sorted(encoding.read)
    named = {variable.raw_name: variable for variable in inputs}
    if all(encoding.columns[j].name in named for j in read):
        chosen = [named[encoding.columns[j].name] for j in read]
    elif len(inputs) == len(read):
        chosen = inputs
    elif len(inputs) == len(encoding.columns):
        chosen = [inputs[j] for j in read]
    else:
        raise ValueError(
            f"a model of a table needs {len(read)} inputs, one for each column that it reads, or "
            f"{len(encoding.columns)}, one for each column; got {len(inputs)}"
        )
    names = {}
    for j, variable in zip(read, chosen, strict=True):
        names[j] = variable.full_name
        if not isinstance(variable.type, StringTensorType):
            names[j] = graph.node("Cast", names[j], to=int(np_dtype_to_tensor_dtype(np.dtype(graph.real))))
    return names


EXPORTER = Exporter("onnx", (".onnx",), lambda model, path, options: to_onnx(model, path, dtype=options.dtype))
