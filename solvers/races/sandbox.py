"""Runs in a process of their own, so that a run that takes too long, takes too much memory or dies harms nothing else.

The process stays for the runs that follow: compiled code stays warm. `main` is its far end.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import psutil

from solvers.races.plans import Plan
from solvers.races.runs import ROOT, Run, UnavailableError

GRACE = (1.5, 10.0)  # a run is ended after this many times its limit plus this many seconds: solvers stop by themselves
LOOK = 0.1  # seconds between two looks at the memory
MEGABYTE = 1e6
FAR_END = "from solvers.races.sandbox import main; main()"

_HERE = threading.local()
_ALIVE: set[Sandbox] = set()


class Sandbox:
    """The near end: a process that executes runs, one at a time."""

    def __init__(self, threads: int) -> None:
        # one BLAS and OpenMP thread count for all libraries; numba's kernels follow the same number
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self.threads = threads
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", FAR_END],  # -P: files of the working folder may be called as ours are
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is the runner's to hear
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests = Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.process.stdin.close()
        self.process.stdout.close()
        _ALIVE.add(self)

    def run(self, kind: type[Plan], run: Run) -> dict[str, Any]:
        """Status, numbers and trace of a run of a kind of plans, whatever becomes of it."""
        deadline = None
        try:
            self._requests.send((sys.path, pickle.dumps((kind, run, self.threads))))
            while True:
                if self._answers.poll(LOOK):
                    message = self._answers.recv()
                    if message is not None:
                        return message
                    if run.time_limit is not None:
                        deadline = time.monotonic() + GRACE[0] * run.time_limit + GRACE[1]
                if deadline is not None and time.monotonic() > deadline:
                    return self._end("time_limit", f"did not end within its {run.time_limit:g} s and the grace")
                if run.memory_limit is not None:  # also as the clock starts: a short run may end before the next look
                    used = psutil.Process(self.process.pid).memory_info().rss / MEGABYTE
                    if used > run.memory_limit:
                        return self._end("memory_limit", f"took {used:.0f} MB of the {run.memory_limit:g} MB allowed")
        except (EOFError, OSError, psutil.NoSuchProcess):
            return self._end("failed", f"the process died (exit code {self.process.poll()})")

    def _end(self, status: str, reason: str) -> dict[str, Any]:
        self.close()
        return {"status": status, "reason": reason}

    def close(self) -> None:
        """End the process, at once."""
        if self not in _ALIVE:
            return
        _ALIVE.discard(self)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # with the processes that a library may have started
        self.process.wait()
        self._requests.close()
        self._answers.close()


def supervise(kind: type[Plan], run: Run, threads: int) -> tuple[Run, dict[str, Any]]:
    """A run in this thread's sandbox; a new one where the last has been ended."""
    sandbox: Any = getattr(_HERE, "sandbox", None)
    fresh = sandbox is None or sandbox.process.poll() is not None or sandbox.threads != threads
    if fresh:
        sandbox = _HERE.sandbox = Sandbox(threads)
    outcome = sandbox.run(kind, run)
    if outcome["status"] == "memory_limit" and not fresh:  # earlier runs may have left some: again, alone
        sandbox = _HERE.sandbox = Sandbox(threads)
        outcome = sandbox.run(kind, run)
    return run, outcome


def close_all() -> None:
    """End every sandbox of this process."""
    for sandbox in list(_ALIVE):
        sandbox.close()


def main() -> None:
    """The far end: reads runs, answers None when a run's clock starts and a dictionary when it has ended."""
    incoming, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what libraries print goes elsewhere
    requests: queue.Queue[tuple[list[str], bytes]] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                requests.put(incoming.recv())
        os._exit(1)  # the near end has gone: nobody would hear the answer

    threading.Thread(target=read, daemon=True).start()
    warnings.simplefilter("ignore")
    while True:
        path, request = requests.get()
        sys.path[:] = path  # now that ours have been imported: modules of users' own are where the near end has them
        answers.send(_outcome(request, lambda: answers.send(None)))


def _outcome(request: bytes, started: Callable[[], None]) -> dict[str, Any]:
    """Status, numbers and trace of a pickled kind of plans, run and number of threads."""
    try:
        kind, run, threads = pickle.loads(request)
        if run.code_version != (version := kind.version()):
            return {"status": "failed", "reason": f"the code has changed: {version}, not {run.code_version}"}
        row, trace = kind.execute(run, threads, started)
    except UnavailableError as error:
        return {"status": "skipped", "reason": str(error)}
    except Exception:  # stored with the row
        return {"status": "failed", "reason": traceback.format_exc()}
    return {"status": "ok", "reason": "", "row": row, "trace": trace}
