"""The far end of a run of HiGHS, as a script that imports little: reads programs, answers what happens and the outcome.

A request is a program with its options and start; "stop" asks the present run to end. Answers are ("event", values,
bound, primal bound, nodes, gap, seconds, CPU seconds), ("log", text) and at last ("end", outcome).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import highspy
import numpy as np


class Quiet(highspy.Highs):
    """HiGHS that prints nothing, not even the line with its version, which comes when callbacks are enabled."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Called by the constructor."""
        self.setOptionValue("log_to_console", False)
        super().enableCallbacks()


def program(columns: dict[str, Any]) -> Any:
    """The program as HiGHS takes it."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = columns["n_columns"], columns["n_rows"]
    for name in ("col_cost_", "col_lower_", "col_upper_", "row_lower_", "row_upper_"):
        setattr(lp, name, columns[name])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = columns["matrix"]
    if columns["integer"].any():
        whole, free = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole if integer else free for integer in columns["integer"]]
    return lp


def begun(columns: dict[str, Any], options: dict[str, Any], start: Any, verbose: bool, send: Any) -> Any:
    """HiGHS, that solves the program in a thread. Bounds come from log events and the final result only: other events
    may belong to sub-MIPs, which do not log.
    """
    highs, began = Quiet(), time.process_time()
    highs.setOptionValue("output_flag", True)  # without it there are no log events
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(program(columns))
    if start is not None and columns["integer"].any():
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        highs.setSolution(solution)

    def incumbent(event: Any) -> None:
        values = np.array(event.data_out.mip_solution)
        if values.size == columns["n_columns"]:
            send(("event", values, None, None, int(event.data_out.mip_node_count), None, None, None))

    def log(event: Any) -> None:
        data = event.data_out
        numbers = (data.mip_dual_bound, data.mip_primal_bound, int(data.mip_node_count), data.mip_gap)
        send(("event", None, *numbers, data.running_time, time.process_time() - began))

    highs.cbMipImprovingSolution += incumbent
    highs.cbMipLogging += log
    if verbose:
        highs.cbLogging += lambda event: send(("log", event.message))
    highs.HandleUserInterrupt = True
    highs.startSolve()
    return highs


def outcome(highs: Any, is_integer: bool) -> tuple[Any, ...]:
    """Status, bound, nodes and values of a finished run."""
    info = highs.getInfo()
    status = highs.getModelStatus().name.removeprefix("k")
    is_feasible = info.primal_solution_status == highspy.kSolutionStatusFeasible
    values = np.array(highs.getSolution().col_value) if is_feasible else None
    if is_integer:
        return status, info.mip_dual_bound, int(info.mip_node_count), values
    return status, info.objective_function_value if status == "Optimal" else None, 0, values


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(answer: Any) -> None:
        with lock:  # callbacks come from threads of HiGHS
            answers.send(answer)

    with contextlib.suppress(EOFError):
        while True:
            request = requests.recv()
            if request == "stop":  # of a run that has ended meanwhile
                continue
            columns, options, start, verbose = request
            highs = begun(columns, options, start, verbose, send)
            while not highs.wait(0.01)[0]:
                if requests.poll() and requests.recv() == "stop":
                    highs.setOptionValue("time_limit", 0.0)  # sub-MIPs ignore callbacks, but new ones check this
                    highs.cancelSolve()
            send(("end", outcome(highs, bool(columns["integer"].any()))))


if __name__ == "__main__":
    main()
