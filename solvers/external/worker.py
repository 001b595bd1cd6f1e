"""The far end of other libraries' calls: it reads solvers with their arguments and answers an error or a value."""

from __future__ import annotations

import contextlib
import os
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = str(Path(__file__).parents[2])  # comes first, so that nothing in the working directory hides ours
COMMAND = ("-c", f"import sys; sys.path.insert(0, {ROOT!r}); from solvers.external.worker import main; main()")


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    for place in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), place)  # what libraries print
    warnings.simplefilter("ignore")
    with contextlib.suppress(EOFError):
        while True:
            solver, arguments = requests.recv()
            try:
                answers.send((None, solver.search(*arguments)))
            except Exception as error:
                answers.send((f"{solver.library}: {type(error).__name__}: {error}", None))
