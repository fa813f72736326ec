"""Every place that Spark and Java write to besides the home's own files: all below the home.

A container may have no other folder that can be written, and a `/tmp` of a few kilobytes.  So what
is temporary goes into the home's `tmp`, whatever the machine has:

- `spark.local.dir` (shuffles, spills, files of Python workers), `spark.sql.warehouse.dir`,
  `java.io.tmpdir` (native libraries that are unpacked) and Derby's folder: the folder of this Spark
  (`scratch.py`), which goes with it;
- Java's `user.home` and Ivy's folder of packages, where the user has no HOME that can be written;
- Python's own temporary files, where Python finds no place for them: the home's `tmp`;
- compiled kernels, where they have no other place: the home's `kernels` (`kernel_places.py`).
"""

from __future__ import annotations

import os
import pwd
import tempfile
from contextlib import suppress
from pathlib import Path

from headrace.kernel_places import keep_in
from headrace.runtime.scratch import TMP


def java_options(scratch: Path) -> str:
    """Of the driver's Java."""
    named = {"java.io.tmpdir": scratch, "derby.system.home": scratch}
    if not has_own_folder():
        named["user.home"] = scratch
    return " ".join(f"-D{name}={place}" for name, place in named.items())


def spark_settings(scratch: Path) -> dict[str, str]:
    """Of a Spark on this machine."""
    settings = {
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    if not has_own_folder():  # packages are fetched once, not by every Spark
        settings["spark.jars.ivy"] = str(scratch.parent.parent / "ivy")
    return settings


def has_own_folder() -> bool:
    """Whether what Java takes for the user's folder is there and can be written.  Java asks the list
    of users, not HOME."""
    try:
        own = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return False
    return os.path.isdir(own) and os.access(own, os.W_OK | os.X_OK)


def settle(home: Path) -> None:
    """When a home is opened: it takes what has no other place.  Java inherits it, and its workers."""
    keep_in(home)
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        place = home.absolute() / TMP
        with suppress(OSError):
            place.mkdir(mode=0o700, exist_ok=True)
            os.environ["TMPDIR"] = tempfile.tempdir = str(place)
