"""A process of its own for a library: it stays for the next call, and can be ended in the middle of one."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """The near end of ``python ARGUMENTS``, whose far end (`far_end`) reads requests from its standard input and
    answers on its standard output. Processes whose call has ended wait for the next one, in the process that made
    them.
    """

    _waiting: ClassVar[dict[tuple[str, ...], list[Process]]] = {}

    def __init__(self, *arguments: str) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        self.arguments, self.owner = arguments, os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
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
    def idle(cls, *arguments: str) -> Process:
        """A process that waits, or a new one."""
        waiting = cls._waiting.setdefault(arguments, [])
        while waiting:
            process = waiting.pop()
            if process.owner == os.getpid() and process.process.poll() is None:
                return process
        return cls(*arguments)

    def send(self, request: Any) -> None:
        """Send a request."""
        self._requests.send(request)

    def answers_within(self, seconds: float) -> bool:
        """Whether there is an answer within some seconds."""
        return self._answers.poll(seconds)

    def answer(self) -> Any:
        """The next answer; RuntimeError if the process has died."""
        try:
            return self._answers.recv()
        except (EOFError, OSError) as died:
            self.end()
            raise RuntimeError(f"the library's process died (exit code {self.process.poll()})") from died

    def release(self) -> None:
        """Keep the process for the next call."""
        self._waiting.setdefault(self.arguments, []).append(self)

    def end(self) -> None:
        """End the process, at once."""
        if self.owner != os.getpid() or self._requests.closed:
            return
        atexit.unregister(self.end)
        self.process.kill()
        self.process.wait()
        self._requests.close()
        self._answers.close()
