"""Interrupts are noted, and long calls left."""

import logging
import os
import signal
import sys
import threading
import time

import numba
import pyomo.environ as pyo
import pytest

from opttree.runtime.interrupts import compilation_can_end, in_background, noted_interrupts


def test_what_nobody_waits_for_ends():
    began, ended = threading.Event(), threading.Event()

    def work():
        try:
            began.set()
            while True:
                time.sleep(0.01)
        finally:
            ended.set()

    running = in_background(work)
    assert next(running) is None
    assert began.wait(60.0)
    running.close()
    assert ended.wait(60.0)
    with pytest.raises(ZeroDivisionError):
        list(in_background(lambda: 1 / 0))


class Slow:
    """Spends its time being thrown away, where Python drops exceptions."""

    def __del__(self):
        for _ in range(20):
            time.sleep(0.001)


def test_what_is_left_in_a_callback_is_left_after_it_and_nothing_is_reported(monkeypatch):
    reported, began, ended = [], threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    def work():
        try:
            began.set()
            while True:
                Slow()
                time.sleep(0.002)
        finally:
            ended.set()

    for _ in range(5):
        began.clear()
        ended.clear()
        running = in_background(work)
        next(running)
        assert began.wait(60.0)
        running.close()
        assert ended.wait(60.0)
    assert not reported


def test_a_model_that_is_left_while_it_is_built_is_no_error_in_the_log(monkeypatch):
    began, records = threading.Event(), []
    handler = logging.Handler()
    handler.emit = records.append
    monkeypatch.setattr(logging.getLogger("pyomo.core"), "handlers", [handler])

    def rule(_model):
        began.set()
        while True:
            time.sleep(0.01)

    running = in_background(lambda: setattr(pyo.ConcreteModel(), "bound", pyo.Constraint(rule=rule)))
    next(running)
    assert began.wait(60.0)
    running.close()
    assert not records
    with pytest.raises(ZeroDivisionError):
        list(in_background(lambda: setattr(pyo.ConcreteModel(), "bound", pyo.Constraint(rule=lambda _m: 1 / 0))))
    assert "ZeroDivisionError" in records[0].getMessage()


def test_what_is_left_is_not_left_in_the_middle_of_a_compilation():
    done, began, ended = [], threading.Event(), threading.Event()
    scope = {"__name__": "numba.core.compiler", "sleep": time.sleep, "done": done, "began": began}
    exec("def compile():\n began.set()\n for _ in range(20):\n  sleep(0.01)\n done.append('compiled')", scope)

    def work():
        try:
            scope["compile"]()
            while True:
                time.sleep(0.01)
        finally:
            done.append("left")
            ended.set()

    running = in_background(work)
    next(running)
    assert began.wait(60.0)
    running.close()
    assert ended.wait(60.0)
    assert done == ["compiled", "left"]


def test_the_compiler_is_free_after_many_threads_were_left_beside_it():
    """A thread that was ended as it took the compiler's lock kept it for ever: the next compilation hung."""

    def work():
        while True:
            numba.njit(lambda x: x + 1)(1)
            time.sleep(0.001)

    for _ in range(30):
        running = in_background(work)
        next(running)
        running.close()
    free = threading.Event()
    threading.Thread(target=lambda: (numba.njit(lambda x: x + 2)(1), free.set()), daemon=True).start()
    assert free.wait(30.0)


class Interrupting:
    """Sends this process an interrupt where Python drops exceptions: while an object is thrown away."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_is_noted_wherever_it_arrives():
    with noted_interrupts() as interrupted:
        assert not interrupted()
        del [Interrupting()][0]
        time.sleep(0.01)
        assert interrupted()
        with noted_interrupts() as inside:  # it came before this block began
            assert inside()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(_inside_a_thread()))
        thread.start()
        thread.join()
        assert seen == [True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with noted_interrupts() as interrupted:
        assert not interrupted()


def _inside_a_thread():
    with noted_interrupts() as interrupted:
        return interrupted()


def test_an_interrupt_ends_a_compilation_in_any_thread_of_a_search():
    @numba.njit
    def doubled(x):
        return 2.0 * x

    with noted_interrupts():
        signal.raise_signal(signal.SIGINT)
        with compilation_can_end():
            with pytest.raises(KeyboardInterrupt):
                doubled(1.0)
            with pytest.raises(KeyboardInterrupt):
                list(in_background(lambda: doubled(1.0)))
        assert not doubled.signatures
        assert doubled(1.0) == 2.0  # what comes after a search is compiled
    assert doubled(1) == 2
