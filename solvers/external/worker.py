"""A process that calls other libraries: it stays for the next call, and can be ended in the middle of one.

`main` is its far end.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

POLL = 0.01  # seconds


class Worker:
    """The near end. Workers whose call has ended wait for the next one, in the process that made them."""

    _waiting: ClassVar[list[Worker]] = []

    def __init__(self) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from solvers.external.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the process that asks
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests = Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.process.stdin.close()
        self.process.stdout.close()
        atexit.register(self.end)

    @classmethod
    def idle(cls) -> Worker:
        """A worker that waits, or a new one."""
        while cls._waiting:
            worker = cls._waiting.pop()
            if worker.owner == os.getpid() and worker.process.poll() is None:
                return worker
        return cls()

    def ask(self, solver: Any, arguments: tuple[Any, ...]) -> None:
        """Begin ``solver.search(*arguments)``."""
        self._requests.send((solver, arguments))

    def has_answered(self) -> bool:
        """Wait a hundredth of a second; whether the call has ended."""
        return self.answers_within(POLL)

    def answers_within(self, seconds: float) -> bool:
        """Whether the call ends within some seconds."""
        return self._answers.poll(seconds)

    def answer(self) -> Any:
        """What the call has returned; RuntimeError with its error, or if the process has died."""
        try:
            error, value = self._answers.recv()
        except EOFError as died:
            self.end()
            raise RuntimeError(f"the library's process died (exit code {self.process.poll()})") from died
        Worker._waiting.append(self)
        if error is not None:
            raise RuntimeError(error)
        return value

    def end(self) -> None:
        """End the process, at once."""
        if self.owner != os.getpid() or self._requests.closed:
            return
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        self._requests.close()
        self._answers.close()


def main() -> None:
    """The far end: reads calls and answers each with its error or its value."""
    requests, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what libraries print
    warnings.simplefilter("ignore")
    with contextlib.suppress(EOFError):
        while True:
            solver, arguments = requests.recv()
            try:
                answers.send((None, solver.search(*arguments)))
            except Exception as error:
                answers.send((f"{solver.library}: {type(error).__name__}: {error}", None))
