"""`doctor`: is this machine fit, and is the home sound?  Looks, and changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.text import Text

from headrace.cli.opening import DEFAULT_HOME, HomeOption
from headrace.cli.show import console

JAVA_MIN = 17
PYTHON_MIN = (3, 11)
FREE_BYTES_MIN = 2 << 30
PACKAGES = ("pyspark", "pyarrow", "pandas", "numpy", "numba", "typer", "rich")
MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}


class Finding(Protocol):
    """What `headrace.runtime.doctor` finds has this shape too."""

    @property
    def level(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def next(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Seen:
    level: str
    what: str
    next: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Check Java, Python, packages, disk and the home; say what to do about what is wrong."""
    findings = [*machine(home), *_examined(home)]
    if as_json:
        typer.echo(
            json.dumps(
                [{"level": f.level, "what": f.what, "next": f.next} for f in findings], indent=2
            )
        )
    else:
        show(findings)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def show(findings: Iterable[Finding]) -> None:
    out = console()
    for finding in findings:
        mark, colour = MARKS.get(finding.level, ("?", "red"))
        out.print(Text.assemble((mark, colour), " ", finding.what), soft_wrap=True)
        if finding.next:
            out.print(Text(f"  → {finding.next}", style="dim"), soft_wrap=True)


def machine(home: Path) -> Iterator[Seen]:
    yield python_found(sys.version_info[:3])
    yield java_found()
    yield packages_found()
    yield from spark_found(_version("pyspark"))
    yield kernels_found(home)
    yield from user_found()
    yield space_found(home)


def python_found(found: tuple[int, ...]) -> Seen:
    text = "Python " + ".".join(map(str, found))
    if found >= PYTHON_MIN:
        return Seen("ok", text)
    return Seen(
        "bad", f"{text} is too old", f"install Python {'.'.join(map(str, PYTHON_MIN))} or newer"
    )


def java_found() -> Seen:
    """JAVA_HOME first, as Spark does."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    advice = (
        f"install a Java {JAVA_MIN}+ runtime (Debian: openjdk-17-jre-headless), or run: make java"
    )
    if program is None:
        return Seen("bad", "JAVA_HOME has no Java" if home else "Java is missing", advice)
    major = java_major(program)
    if major is None:
        return Seen("bad", f"{program} does not say its version", advice)
    if major < JAVA_MIN:
        return Seen("bad", f"Java {major} is too old", advice)
    return Seen("ok", f"Java {major}")


def java_major(program: str) -> int | None:
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=20, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def packages_found() -> Seen:
    missing = [name for name in PACKAGES if _version(name) is None]
    if missing:
        return Seen("bad", f"missing packages: {', '.join(missing)}", "run: make install")
    return Seen("ok", ", ".join(f"{name} {_version(name)}" for name in PACKAGES[:5]))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def spark_found(found: str | None) -> Iterator[Seen]:
    """Nothing of the newest: it lacks nothing."""
    from headrace.runtime.versions import BELOW, LEAST, is_supported, lacking

    if found is None:
        return
    least, below = (".".join(map(str, version)) for version in (LEAST, BELOW))
    if not is_supported(found):
        yield Seen(
            "bad",
            f"Spark {found} is not one that Headrace runs on",
            f"install pyspark from {least} on, below {below}",
        )
        return
    for lack in lacking(found):
        newer = ".".join(map(str, lack.since))
        yield Seen("warn", f"Spark {found} has no {lack.what}", f"{lack.cost}; {newer} has it")


def kernels_found(home: Path) -> Seen:
    """Where compiled kernels are kept; a home that is not there yet will be."""
    from headrace.kernel_places import keep_in, kept_place

    if home.is_dir():
        keep_in(home)
    place = kept_place()
    if place is not None:
        return Seen("ok", f"compiled kernels are kept in {place}")
    if not home.exists():
        return Seen("ok", "compiled kernels will be kept in the home")
    return Seen(
        "warn",
        "compiled kernels are kept nowhere: each start compiles them anew, for most of a minute",
        "set NUMBA_CACHE_DIR to a folder that can be written, or make one with `headrace warm`",
    )


def user_found() -> Iterator[Seen]:
    """Only where it is worth a word."""
    from headrace.runtime.nameless import chosen_name, user_name

    if user_name() is None:
        what = f"user {os.getuid()} has no name; Spark is told {chosen_name()!r}"
        yield Seen("ok", what, "a program that makes its own Spark needs a line in /etc/passwd")


def space_found(home: Path) -> Seen:
    """Free space where the home is, or will be."""
    place = home.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / (1 << 30):,.1f} GB free on disk"
    if free < FREE_BYTES_MIN:
        return Seen(
            "warn", text, "answers and state need room: free some, or put the home elsewhere"
        )
    return Seen("ok", text)


def _examined(home: Path) -> list[Finding]:
    if not home.exists():
        return [Seen("ok", f"no home at {home} yet", "headrace init makes one")]
    from headrace.runtime.doctor import examine

    return list(examine(home))
