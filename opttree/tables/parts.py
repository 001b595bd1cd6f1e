"""`Rows`: a table in parts, of which statistics add up: in memory, on disk, or on a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.runtime import cluster
from opttree.runtime.threads import count, limited
from opttree.tables import blocks
from opttree.tables.chunks import Chunks
from opttree.tables.sources import (
    Arrays,
    Columns,
    Delayed,
    Parquet,
    Read,
    Stored,
    along_rows,
    checked,
    files_of,
    n_rows_of,
    names_of,
    placed,
    triples,
)

__all__ = ["Rows", "Traffic"]

Floats = NDArray[np.float64]
ROWS = 262_144
BLOCK = 1 / 3  # times the root of the number of parts: those that are added up in one place


@dataclass
class Traffic:
    """What has travelled between the parts and the place where sums are taken.

    Attributes
    ----------
    rounds : int
        Times that all parts were asked.
    sent, received : int
        Bytes of the arrays that went to blocks of parts, once for each, and that came back.
    """

    rounds: int = 0
    sent: int = 0
    received: int = 0


class Rows:
    """A table in parts that are read one at a time, wherever they are, and summed up.

    Estimators take it in place of ``X``: ``estimator.fit(rows)``. A part computes statistics of its rows, of fixed
    size; their sum, always in the order of the parts, says how the model goes on. No process holds more than some
    parts.

    Parameters
    ----------
    source : path, glob pattern, list of paths, arrays or Dask collection
        A Parquet file, a folder of them, a pattern such as ``"parts/*.parquet"`` or a list of these; a pair ``(X, y)``
        or triple ``(X, y, weight)`` of arrays, possibly memory-mapped, or of Dask arrays that are cut alike; a list of
        such pairs of arrays in memory; a Dask DataFrame; or `opttree.chunks.Chunks` of one of these.
    target : str or list of str or None, default None
        The target columns of files and DataFrames.
    weight : str or None, default None
        The column of weights of files and DataFrames.
    rows : int, default 262144
        Largest number of rows of a part of files and arrays; partitions of a Dask collection are parts as they are. Row
        groups of Parquet files are read whole, and had better not be larger.
    n_jobs : int or None, default None
        Parts read and summed up at a time, in threads of this process; see `opttree.TAORegressor`.
    client : distributed.Client or None, default None
        A Dask cluster whose workers do the work, each on parts of its own; None: this process does, unless it is called
        under ``joblib.parallel_config(backend="dask")``.
    store : path or None, default None
        A folder, on a cluster one that all workers see, for the rows as numbers in the units of the statement: later
        rounds read them there, which is quicker than Parquet files. It takes 8 bytes for each number and is not
        emptied. None: rounds read the source.

    Attributes
    ----------
    traffic : Traffic
        Rounds, and bytes that have travelled.

    Raises
    ------
    ValueError
        For a source that has no parts, and columns that it does not contain.

    See Also
    --------
    opttree.chunks.Chunks : rows in turn, for methods that learn from one part after the other

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("friedman1", as_arrays=True)
    >>> rows = opttree.Rows((X, y), rows=300)
    >>> len(rows), rows.n_rows
    (7, 2000)
    >>> model = opttree.TAORegressor(3, leaves="linear", random_state=0).fit(rows)
    >>> model.score(X, y) > 0.8
    True
    """

    def __init__(
        self,
        source: Any,
        target: str | Sequence[str] | None = None,
        *,
        weight: str | None = None,
        rows: int = ROWS,
        n_jobs: int | None = None,
        client: Any = None,
        store: str | Path | None = None,
    ) -> None:
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise ValueError(f"rows must be an integer >= 1; got {rows!r}")
        if isinstance(source, Chunks):
            source, target, rows = source.source, source.target if target is None else target, source.rows
        names = () if target is None else (target,) if isinstance(target, str) else tuple(target)
        self._columns = Columns(names, isinstance(target, str) or len(names) == 1, weight)
        self.n_jobs, self.client, self.store, self.traffic = n_jobs, client, store, Traffic()
        self.watch: Callable[[int], None] | None = None  # told how many parts of a round there have been
        self._parts: list[Any] = list(self._parts_of(source, int(rows)))
        self._sizes: list[int] | None = None
        self._held: dict[
            int, Any
        ] = {}  # blocks of a Dask collection's partitions, computed once, which stay with workers
        if not self._parts:
            raise ValueError("source must hold at least one row; got none")

    def _parts_of(self, source: Any, rows: int) -> Iterator[Any]:
        if isinstance(source, (str, Path)):
            yield from self._of_files(files_of(source), rows)
        elif isinstance(source, list) and source and all(isinstance(one, (str, Path)) for one in source):
            yield from self._of_files([file for one in source for file in files_of(one)], rows)
        elif isinstance(source, tuple) and len(source) in (2, 3) and all(hasattr(a, "to_delayed") for a in source):
            columns = [along_rows(array) for array in source]
            if len({len(column) for column in columns}) > 1:
                raise ValueError(f"X and y must have as many parts; got {[len(column) for column in columns]}")
            from dask import delayed

            for parts in zip(*columns, strict=True):
                yield Delayed(delayed(tuple)(list(parts)))
        elif hasattr(source, "to_delayed"):
            self._need_target()
            if not hasattr(source, "columns"):
                raise ValueError(
                    f"source must be a Dask DataFrame or arrays (X, y); got a single {type(source).__name__}"
                )
            self._columns = self._columns._replace(order=names_of(source))
            yield from (Delayed(part) for part in source.to_delayed())
        elif isinstance(source, (tuple, list)):
            if self._columns.target or self._columns.weight is not None:
                given = [*self._columns.target, self._columns.weight]
                raise ValueError(f"target and weight name columns of files and DataFrames; got {given} beside arrays")
            for X, y, weight in triples(source):
                lengths = [n_rows_of(array) for array in (X, y, weight) if array is not None]
                if len(set(lengths)) > 1:
                    raise ValueError(f"X, y and weights must have as many rows; got {lengths}")
                if not self._columns.order:
                    self._columns = self._columns._replace(order=names_of(X))
                where = placed(X), placed(y), placed(weight)
                for first in range(0, lengths[0], rows):
                    yield Arrays(*where, first, min(first + rows, lengths[0]))
        else:
            raise ValueError(
                "source must be Parquet files, arrays (X, y), a list of such pairs or a Dask collection, whose parts "
                f"can be read in any order; got {type(source).__name__}"
            )

    def _of_files(self, files: list[str], rows: int) -> Iterator[Parquet]:
        from pyarrow.parquet import ParquetFile

        self._need_target()
        for file in files:
            with ParquetFile(file, pre_buffer=False) as table:
                if not self._columns.order:
                    self._columns = self._columns._replace(order=tuple(table.schema_arrow.names))
                for group in range(table.num_row_groups):
                    size = table.metadata.row_group(group).num_rows
                    for first in range(0, size, rows):
                        yield Parquet(file, group, first, min(rows, size - first))

    def _need_target(self) -> None:
        if not self._columns.target:
            raise ValueError("target must name the target column of a table; got None")

    def __len__(self) -> int:
        return len(self._parts)

    @property
    def sizes(self) -> list[int]:
        """Rows of each part; counted once."""
        if self._sizes is None:
            known = all(hasattr(part, "rows") for part in self._parts)
            self._sizes = [part.rows for part in self._parts] if known else list(self.each(blocks.size, ()))
        return self._sizes

    @property
    def n_rows(self) -> int:
        """Rows of all parts."""
        return sum(self.sizes)

    def part(self, number: int) -> Read:
        """One part.

        Parameters
        ----------
        number : int
            Its number, from 0.

        Returns
        -------
        Read
            ``X, y, weight`` of its rows.
        """
        return checked(self._parts[number].read(self._columns))

    def each(self, function: Callable[..., Any], shared: Any) -> Generator[Any]:
        """``function(part, number, shared)`` of each part, in their order, several at a time.

        Parameters
        ----------
        function : callable
            Function of a `Read`, its number and ``shared``; of a module, where the parts are on a cluster.
        shared : object
            What all calls get: on a cluster, it is sent to the workers.

        Yields
        ------
        object
            Its results.
        """
        client = self._new_round(shared)
        if client is None:
            results = self._here(lambda read, number: function(read(), number, shared))
        else:
            results = (one for block in self._there(client, blocks.answers, function, shared) for one in block)
        for number, result in enumerate(results, 1):
            yield self._come(result, number)

    def sum(
        self, function: Callable[..., Any], shared: Any, states: list[Any] | None = None, *, again: bool = False
    ) -> Any:
        """The sum of what ``function`` has for the parts: numbers, arrays, objects with a method ``plus``, and tuples
        of these. Neighbouring parts are added up where they are, and then these sums, in the order of the parts: a sum
        does not depend on what does the work.

        Parameters
        ----------
        function : callable
            See `each`; with ``states``, ``function(part, number, shared, state)``, which returns an answer and the next
            state. It must not change the state that it is given.
        shared : object
            See `each`.
        states : list or None, default None
            States of the parts, which stay where the parts are: empty before the first call, in which ``state`` is
            None; in later ones ``part`` is None, and is read no more.
        again : bool, default False
            Whether parts are read in later calls, too.

        Returns
        -------
        object
            The sum.
        """
        client, first = self._new_round(shared), states is None or not states
        if states is not None and first:
            states += [None] * (len(self._parts) if client is None else len(self._blocks))
        if client is None:
            sums = self._sums_here(function, shared, states, first or again)
        else:
            sums = self._there(client, partial(blocks.summed, again=again), function, shared, states)
        total: Any = None
        for block, result in zip(self._blocks, sums, strict=True):
            total = blocks.added(total, self._come(result, block.stop))
        return total

    def _sums_here(
        self, function: Callable[..., Any], shared: Any, states: list[Any] | None, reads: bool
    ) -> Generator[Any]:
        """The sum of each block."""

        def here(read: Callable[[], Read], number: int) -> Any:
            if states is None:
                return function(read(), number, shared)
            answer, states[number] = function(read() if reads else None, number, shared, states[number])
            return answer

        answers = self._here(here)
        for block in self._blocks:
            total = None
            for answer in islice(answers, len(block)):
                total = blocks.added(total, answer)
            yield total

    @property
    def _blocks(self) -> list[range]:
        """Neighbouring parts that are added up in one place: their number depends on that of the parts alone."""
        n = len(self._parts)
        size = max(round(BLOCK * n**0.5), 1)
        return [range(first, min(first + size, n)) for first in range(0, n, size)]

    def stored(self, read: Callable[[Read], Any]) -> Rows:
        """The rows in the form that ``read`` gives them, written to the folder ``store`` in one pass.

        Parameters
        ----------
        read : callable
            From a part to arrays ``X, y, weight``.

        Returns
        -------
        Rows
            Rows whose parts are read from there; their `Traffic` is the same.
        """
        Path(str(self.store)).mkdir(parents=True, exist_ok=True)
        sizes = list(self.each(blocks.written, (str(self.store), read)))
        found = type(self).__new__(type(self))
        vars(found).update(vars(self))
        found._parts = [Stored(str(self.store), number, size) for number, size in enumerate(sizes)]
        found._sizes, found._held = sizes, {}
        return found

    def sample(self, most: int, rng: np.random.Generator) -> Read:
        """Random rows in one pass, with their weights; all, in their order, if there are no more.

        Parameters
        ----------
        most : int
            Number of rows.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        Read
            The rows.
        """
        return self.taken(self.draw(most, rng))

    def draw(self, most: int, rng: np.random.Generator, also: Any = ()) -> NDArray[np.int64]:
        """Numbers of random rows, all if there are no more, in their order.

        Parameters
        ----------
        most : int
            Number of rows.
        rng : numpy.random.Generator
            Random numbers.
        also : array-like of int, default ()
            Rows that are taken besides.

        Returns
        -------
        ndarray of int
            The numbers.
        """
        n = self.n_rows
        chosen = rng.choice(n, most, replace=False) if n > most else np.arange(n)
        return np.union1d(chosen, np.asarray(also, np.int64)).astype(np.int64)

    def taken(self, numbers: NDArray[np.int64]) -> Read:
        """Rows by their numbers.

        Parameters
        ----------
        numbers : ndarray of int
            Increasing numbers.

        Returns
        -------
        Read
            The rows.
        """
        firsts = np.concatenate([[0], np.cumsum(self.sizes)])
        places = np.searchsorted(numbers, firsts)
        wanted = [numbers[a:b] - first for a, b, first in zip(places[:-1], places[1:], firsts[:-1], strict=True)]
        found = [some for some in self.each(blocks.taken, wanted) if len(some.y)]
        if not found:
            raise ValueError("source must hold at least one row; got none")
        frames = {hasattr(some.X, "columns") for some in found}
        if len(frames) > 1 or len({some.X.shape[1] for some in found}) > 1:
            raise ValueError("parts must have the same columns, all of them as arrays or as DataFrames")
        if frames == {True}:
            import pandas as pd

            X = pd.concat([some.X for some in found], ignore_index=True)
        else:
            X = np.concatenate([some.X for some in found])
        weighted = any(some.weight is not None for some in found)
        ones = [np.ones(len(some.y)) if some.weight is None else some.weight for some in found]
        return Read(X, np.concatenate([some.y for some in found]), np.concatenate(ones) if weighted else None)

    def without(self, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
        """The rows in two tables: most parts, and about this share of the rows, in whole parts, at least one.

        Parameters
        ----------
        share : float
            Share of the second table.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        tuple of (Rows, Rows)
            The tables.
        """
        if len(self) < 2:
            raise ValueError(f"a table in parts must have two parts or more to hold some out; got {len(self)}")
        count = min(max(round(share * len(self)), 1), len(self) - 1)
        held = rng.choice(len(self), count, replace=False)
        tables = [self.only(numbers) for numbers in (np.setdiff1d(np.arange(len(self)), held), np.sort(held))]
        for table in tables:
            table.traffic = Traffic()
        return tables[0], tables[1]

    def only(self, numbers: Sequence[int] | NDArray[np.integer]) -> Rows:
        """Some parts as a table of their own, whose `Traffic` is this one's.

        Parameters
        ----------
        numbers : sequence of int
            The parts' numbers, in the order that they shall have.

        Returns
        -------
        Rows
            The table.
        """
        table = type(self).__new__(type(self))
        sizes = None if self._sizes is None else [self._sizes[number] for number in numbers]
        vars(table).update(vars(self), _parts=[self._parts[number] for number in numbers], _sizes=sizes, _held={})
        return table

    @property
    def turns(self) -> int:
        """Parts that one of those who work must go through, one after another, at most."""
        if (self.client or cluster.client()) is None:
            return -(-len(self) // self.width)
        return -(-len(self._blocks) // self.width) * len(self._blocks[0])

    @property
    def width(self) -> int:
        """Parts worked on at a time: threads of this process, or of all workers of the cluster."""
        client = self.client or cluster.client()
        threads = count(self.n_jobs) if client is None else sum(client.nthreads().values())
        return max(min(threads, len(self)), 1)

    # ---- where the work is done -------------------------------------------------------------------------------------

    def _new_round(self, shared: Any) -> Any:
        """Count a round, in which all blocks are told ``shared``; the client of the cluster, or None."""
        self.traffic.rounds += 1
        self.traffic.sent += blocks.size_in_bytes(shared) * len(self._blocks)
        return self.client or cluster.client()

    def _come(self, result: Any, number: int) -> Any:
        """A result, whose bytes are counted; ``watch`` is told of the ``number`` parts that have been done."""
        self.traffic.received += blocks.size_in_bytes(result)
        if self.watch is not None:
            self.watch(number)
        return result

    def _here(self, work: Callable[[Callable[[], Read], int], Any]) -> Generator[Any]:
        """In threads of this process: while one part is summed up, others are read."""
        width = min(count(self.n_jobs), len(self._parts))

        def task(number: int) -> Any:
            with limited(1 if width > 1 else count(self.n_jobs)):
                return work(partial(self.part, number), number)

        if width == 1:
            yield from map(task, range(len(self._parts)))
            return
        waiting: deque[Any] = deque()
        with ThreadPoolExecutor(width) as pool:
            try:
                for number in range(len(self._parts)):
                    if len(waiting) > width:
                        yield waiting.popleft().result()
                    waiting.append(pool.submit(copy_context().run, task, number))
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _there(
        self,
        client: Any,
        work: Callable[..., Any],
        function: Callable[..., Any],
        shared: Any,
        states: list[Any] | None = None,
    ) -> Generator[Any]:
        """``work`` of each block on a cluster, a task for a block; what a lost worker had is read and done again."""
        submit = partial(client.submit, pure=False)
        for number, block in enumerate(self._blocks):
            if number not in self._held and all(isinstance(self._parts[part], Delayed) for part in block):
                parts = client.compute([self._parts[part].part for part in block])
                self._held[number] = submit(blocks.together, *parts)
        sent = client.submit(blocks.same, shared, pure=False)
        futures: list[Any] = []
        for number, block in enumerate(self._blocks):
            held = self._held.get(number)
            parts = None if held is not None else [self._parts[part] for part in block]
            task = work, function, parts, held, self._columns, block, sent
            if states is None:
                futures.append(submit(blocks.work_of_block, *task))
                continue
            both = submit(blocks.work_of_block, *task, (states[number],))
            futures.append(submit(itemgetter(0), both))
            states[number] = submit(itemgetter(1), both)
        try:
            for number in range(len(futures)):
                yield futures[number].result()
                futures[number] = None  # its memory on the worker
        except BaseException:
            client.cancel([future for future in futures if future is not None])
            raise
