"""The package, as executors import it out of the home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import headrace
from headrace.runtime.shipping import FOLDER, ship

OURS = Path(headrace.__file__).parent
IMPORT = "import headrace, headrace.families.joins.job as j; print(headrace.__file__, j.__file__)"


def test_it_is_imported_from_there_and_nowhere_else(tmp_path: Path) -> None:
    folder = ship(tmp_path)
    path = os.pathsep.join([str(folder), *sys.path])
    said = subprocess.run(
        [sys.executable, "-c", IMPORT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert said and all(place.startswith(str(folder)) for place in said)


def test_what_only_the_driver_needs_stays_here(tmp_path: Path) -> None:
    folder = ship(tmp_path) / "headrace"
    assert {"bench", "cli"}.isdisjoint(path.name for path in folder.iterdir())
    assert (folder / "families/joins/job.py").read_bytes() == (
        OURS / "families/joins/job.py"
    ).read_bytes()


def test_it_is_written_once_and_mended_where_it_is_not_whole(tmp_path: Path) -> None:
    folder = ship(tmp_path)
    first = (folder / "headrace").stat().st_ino
    assert ship(tmp_path) == folder and (folder / "headrace").stat().st_ino == first
    (folder / "headrace/errors.py").write_text("")
    assert ship(tmp_path) == folder
    assert (folder / "headrace/errors.py").read_bytes() == (OURS / "errors.py").read_bytes()


def test_other_versions_go(tmp_path: Path) -> None:
    old = tmp_path / FOLDER / "0123456789abcdef"
    old.mkdir(parents=True)
    folder = ship(tmp_path)
    assert list((tmp_path / FOLDER).iterdir()) == [folder]


def test_times_of_sources_stay_so_that_what_is_compiled_counts(tmp_path: Path) -> None:
    folder = ship(tmp_path) / "headrace"
    for name in ("errors.py", "relations/kernels.py"):
        assert (folder / name).stat().st_mtime == (OURS / name).stat().st_mtime
