"""Spark's Java classes, read and checked once: class data sharing (JEP 310 and 350).

Half of what Java does until the first round is reading and verifying some 20,000 classes.  It can
keep them in an archive when it ends, and map that archive when it starts again: from Java 19 on by
itself (`AutoCreateSharedArchive`), before by being told to.  Java checks that the archive is of this
Java and of these jars, and goes without where it is not; its header is written last, so one that was
cut off is not taken.

The archive is some 180 MB in the folder `HEADRACE_CACHE_DIR` (else `$XDG_CACHE_HOME/headrace`, else
`~/.cache/headrace`).  Where that cannot be written, is short of room, or is named by an empty text,
there is none.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.disk import PRIVATE_FOLDER

VARIABLE = "HEADRACE_CACHE_DIR"
FREE_BYTES_MIN = 2 << 30
KEPT = 3  # archives of other Javas and Sparks that are used in turn
AUTO_SINCE = 19
SINCE = 13
_PLAIN = re.compile(r"[\w./+=@-]+", re.ASCII)  # what Spark takes in a setting as it is
_SILENT = "-Xlog:cds*=off"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java as its folder describes it, without being started."""

    program: Path
    version: int
    release: str


def find_java() -> Java | None:
    """The Java that Spark will take; None where it does not say which it is."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java" if home else "java")
    if found is None:
        return None
    program = Path(found).resolve()
    try:
        release = (program.parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.M)
    return None if version is None else Java(program, int(version[1]), release)


def cache_folder() -> Path | None:
    """Where archives are kept; None where nobody says where, or says nowhere."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named).absolute() if named else None
    base = os.environ.get("XDG_CACHE_HOME")
    with suppress(RuntimeError):  # a user without a home
        return (Path(base) if base else Path.home() / ".cache") / "headrace"
    return None


def archive_options(jars: Path, conf: Path, settings: Mapping[str, str]) -> str:
    """Options for Java: use the archive, or make it at its end; nothing where it cannot be."""
    java, folder = find_java(), cache_folder()
    if java is None or java.version < SINCE or folder is None or _has_folders(conf):
        return ""
    archive = folder / f"spark-{_key(java, jars, settings)}.jsa"
    if not _PLAIN.fullmatch(str(archive)):
        return ""
    if is_whole(archive):
        with suppress(OSError):
            os.utime(archive)  # which were used last
        return f"-XX:SharedArchiveFile={archive} {_SILENT}"
    if not _makes_room(folder):
        return ""
    if java.version >= AUTO_SINCE:
        return f"-XX:+AutoCreateSharedArchive -XX:SharedArchiveFile={archive} {_SILENT}"
    return f"-XX:ArchiveClassesAtExit={archive} {_SILENT}"


def is_whole(archive: Path) -> bool:
    """Java writes the first bytes last.  What somebody else may have put there is not taken."""
    try:
        with archive.open("rb") as file:
            found = os.fstat(file.fileno())
            is_safe = found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022
            return is_safe and any(file.read(4))
    except OSError:
        return False


def _has_folders(conf: Path) -> bool:
    """Java makes no archive where the class path has folders with files."""
    named = [os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    given = os.environ.get("SPARK_CONF_DIR")
    places = [Path(given) if given else conf, *(Path(name) for name in named if name)]
    return any(place.is_dir() for place in places)


def _key(java: Java, jars: Path, settings: Mapping[str, str]) -> str:
    """Of all that the class path and the layout of objects depend on."""
    parts = [str(java.program), java.release, str(jars)]
    with suppress(OSError):
        parts += [f"{jar.name} {jar.stat().st_size}" for jar in sorted(jars.iterdir())]
    parts += [os.environ.get("SPARK_DIST_CLASSPATH", ""), os.environ.get("SPARK_SUBMIT_OPTS", "")]
    parts += [
        settings.get("spark.driver.extraClassPath", ""),
        settings.get("spark.driver.memory", ""),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _makes_room(folder: Path) -> bool:
    """Whether there is room for one more; those that were not used for longest go."""
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        found = sorted(folder.glob("spark-*.jsa"), key=lambda path: -path.stat().st_mtime)
        for path in found[KEPT - 1 :]:
            path.unlink()
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= FREE_BYTES_MIN
    except OSError:
        return False
