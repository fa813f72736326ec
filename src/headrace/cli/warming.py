"""`warm`: compile the kernels now and keep them, so that a start does not wait for the compiler.

For a Dockerfile, as whoever runs the image could not write there:
`RUN NUMBA_CACHE_DIR=/opt/kernels headrace warm`.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from time import monotonic

from headrace.cli.opening import DEFAULT_HOME, HomeOption
from headrace.cli.show import console, note, several
from headrace.errors import HeadraceError, HeadraceWarning

MASTER = "local[2]"


def warm(home: HomeOption = DEFAULT_HOME) -> None:
    """Compile the kernels and keep them; say where, and how long it took."""
    from headrace.kernel_places import FOLDER, KEPT_IN, kept_files, kept_place

    if home.is_dir():
        os.environ.setdefault(KEPT_IN, str(home.absolute() / FOLDER))
    place = kept_place()
    if place is None:
        raise HeadraceError(
            "there is no folder in which compiled kernels could be kept",
            value=os.environ.get("NUMBA_CACHE_DIR", "the package's own folder is read-only"),
            hint="NUMBA_CACHE_DIR=DIR headrace warm, or --home DIR: a home that is there",
            code="KERNELS",
        )
    before, began_s = len(kept_files(place)), monotonic()
    note("a small stream with a query of each kind compiles the kernels …")
    _play()
    kept = kept_files(place)
    size = sum(file.stat().st_size for file in kept) / 1e6
    console().print(
        f"{several(len(kept) - before, 'kernel')} compiled in {monotonic() - began_s:.0f} s; "
        f"{len(kept):,} are kept in {place} ({size:.1f} MB)",
        markup=False,
        soft_wrap=True,
    )


def _play() -> None:
    from headrace.cli.driving import start_spark
    from headrace.cli.warm_stream import play
    from headrace.config import Config
    from headrace.engine import Engine

    with tempfile.TemporaryDirectory(prefix="headrace-warm-", ignore_cleanup_errors=True) as made:
        # here: where the kernels are kept, whatever cluster runs later
        config = replace(Config.from_environment(), master=MASTER)
        with Engine(Path(made) / "race", config=config) as engine, warnings.catch_warnings():
            warnings.simplefilter("ignore", HeadraceWarning)  # of queries that nobody asked for
            start_spark(engine)
            play(engine, Path(made) / "sources")
