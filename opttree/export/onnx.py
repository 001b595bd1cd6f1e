"""ONNX: models as files for onnxruntime and other runtimes, and a converter for skl2onnx's pipelines."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.export import graph as graphs
from opttree.model.files import as_saved
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.files import whole_file

OPSET, ML_OPSET, IR_VERSION = 18, 5, 10


class OnnxGraph:
    """Nodes and constants of a graph of the package onnx."""

    def __init__(self, dtype: str) -> None:
        self.real: Any = np.dtype(dtype).type
        self.has_tree_ensemble = True
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output."""
        from onnx import helper, numpy_helper

        name = f"opttree {op} {len(self.nodes)}"
        given = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, domain=domain, **given))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array."""
        from onnx import numpy_helper

        name = f"opttree constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name


def to_onnx(model: Any, path: str | Path | None = None, *, dtype: Literal["float64", "float32"] = "float64") -> Any:
    """ONNX graph of a model.

    Inputs: "X" (n, p); of a model with the encoding of a table, one (n, 1) input for every column, by its name: numbers
    (NaN where missing; booleans 0 or 1, dates in days since 1970) of type ``dtype``, categories as texts ("" where
    missing). Outputs: "variable" (n, K), or "label" (n,), booleans as 0 and 1, and "probabilities" (n, K); where a
    column has such a name, with "_of_model" after it.

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
        If the model has transformed features, or answers differently from its estimator.

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
    saved = as_saved(model)
    inside = saved.tree
    graph = OnnxGraph(dtype)
    number = TensorProto.DOUBLE if dtype == "float64" else TensorProto.FLOAT
    if inside.encoding is None:
        inputs = [helper.make_tensor_value_info("X", number, [None, inside.n_features])]
        X = "X"
    else:
        columns = inside.encoding.columns
        kinds = [TensorProto.STRING if column.kind == "category" else number for column in columns]
        inputs = [
            helper.make_tensor_value_info(column.name, kind, [None, 1])
            for column, kind in zip(columns, kinds, strict=True)
        ]
        X = graphs.encoded(graph, inside.encoding, [column.name for column in columns])
    names, types = _answers(graph, inside, X)
    taken = {value.name for value in inputs}
    types = [(name if name not in taken else f"{name}_of_model", t, s) for name, t, s in types]
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


def _answers(graph: Any, model: Tree | Forest, X: str) -> tuple[list[str], list[tuple[str, Any, list[Any]]]]:
    """Names of the answers within the graph; name, type (None: a number) and shape of each as an output."""
    outputs = graphs.scores(graph, model, X)
    if model.classes is None:
        return [outputs], [("variable", None, [None, model.n_outputs])]
    from onnx import TensorProto

    labels = model.classes
    is_whole = labels.dtype.kind in "iub"
    kind = TensorProto.INT64 if is_whole else TensorProto.DOUBLE if labels.dtype.kind == "f" else TensorProto.STRING
    table = labels.astype(np.int64 if is_whole else np.float64 if labels.dtype.kind == "f" else object)
    label = graph.node("Gather", graph.constant(table), graph.node("ArgMax", outputs, axis=1, keepdims=0), axis=0)
    shares = graphs.shares(graph, model, outputs)
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
    those of its input, float32 or float64.

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
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    model = as_saved(operator.raw_operator).tree
    rows, number = operator.inputs[0].get_first_dimension(), _number_type(operator)
    if model.classes is None:
        operator.outputs[0].type = number([rows, model.n_outputs])
        return
    kind = Int64TensorType if model.classes.dtype.kind in "iub" else StringTensorType
    operator.outputs[0].type = kind([rows])
    operator.outputs[1].type = number([rows, len(model.classes)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the operators of an estimator to a graph of skl2onnx."""
    from skl2onnx.common.data_types import DoubleTensorType

    model = as_saved(operator.raw_operator).tree
    double = _number_type(operator) is DoubleTensorType
    graph = Skl2OnnxGraph(scope, container, np.float64 if double else np.float32)
    inputs = [variable.full_name for variable in operator.inputs]
    if model.encoding is not None and len(inputs) == len(model.encoding.columns):
        X = graphs.encoded(graph, model.encoding, inputs)
    elif model.encoding is not None:
        raise ValueError(
            f"a model of a table needs {len(model.encoding.columns)} inputs, one a column; got {len(inputs)}"
        )
    else:
        X = inputs[0] if len(inputs) == 1 else graph.node("Concat", *inputs, axis=1)
    names, _types = _answers(graph, model, X)
    for name, variable in zip(names, operator.outputs, strict=True):
        container.add_node("Identity", [name], [variable.full_name], name=scope.get_unique_operator_name("Identity"))
