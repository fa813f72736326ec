"""Files of trades, written ahead of whoever reads them.

A file is written aside and renamed, so that nobody sees half of one; at most `ahead` files wait to
be read, so that the disk holds what was read and little more.  Nothing is deleted.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.bench.market import START_US, Market
from headrace.values import US_PER_S


def write_file(folder: Path, number: int, table: pa.Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{number:06d}.parquet"
    aside = folder / f".{path.name}.part"  # Spark skips names that begin with a dot
    pq.write_table(table, aside)
    return aside.rename(path)


class Feed:
    """A thread that keeps a folder `ahead` files ahead of the reader, who reports with `read`.

    A folder that has files already is carried on after the last of them.
    """

    def __init__(
        self, folder: Path, *, seed: int, rows_per_second: int, seconds: int = 4, ahead: int = 4
    ) -> None:
        self.folder = folder
        self.rows_per_second = rows_per_second
        self.seconds = seconds
        self.ahead = ahead
        folder.mkdir(parents=True, exist_ok=True)
        self.first = self._next = 1 + max(
            (int(p.stem[5:]) for p in folder.glob("part-*.parquet")), default=-1
        )
        self._market = Market(np.random.default_rng([seed, self.first]))
        self._read = 0
        self._error: Exception | None = None
        self._stopped = False
        self._turn = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="headrace-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def read(self, files: int) -> None:
        """So many files of this feed have been read.  Raises what kept the feed from writing."""
        with self._turn:
            self._read = max(self._read, files)
            self._turn.notify()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._turn:
            self._stopped = True
            self._turn.notify()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def written(self) -> int:
        return self._next - self.first

    def _work(self) -> None:
        try:
            while self._may_write():
                self._write()
        except Exception as error:  # noqa: BLE001 - told to whoever reads
            self._error = error

    def _may_write(self) -> bool:
        with self._turn:
            self._turn.wait_for(lambda: self._stopped or self.written - self._read < self.ahead)
            return not self._stopped

    def _write(self) -> None:
        start_us = START_US + self._next * self.seconds * US_PER_S
        write_file(
            self.folder,
            self._next,
            self._market.trades(start_us, self.seconds, self.rows_per_second),
        )
        self._next += 1
