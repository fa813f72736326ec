"""`headrace doctor`: is the home sound, and if not, what are the safe ways out?  Reads only; no
JVM."""

from __future__ import annotations

import fcntl
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from headrace.catalog.catalog import Catalog
from headrace.config import Config
from headrace.disk import Disk
from headrace.errors import HeadraceError
from headrace.records import reading
from headrace.runtime.home import MARK, Home
from headrace.runtime.ledger import Ledger, check_catalog
from headrace.runtime.sparklogs import SparkLogs

_WAYS_OUT = (
    "restore the home (its checkpoint folder included) from one backup; or keep the home for its answers and "
    "start a new home over the source files that are still to be read"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.  level: 'ok', 'warn' or 'bad'."""

    level: str
    what: str
    next: str = ""


def examine(home: Path, config: Config | None = None) -> list[Finding]:
    """Everything worth saying about a home."""
    if not (home / MARK).exists():
        return [
            Finding(
                "warn", f"{home} is not a home yet", "`headrace init` or the first run makes it"
            )
        ]
    try:
        opened = Home(home)
        catalog = Catalog(opened.disk, config or Config())
    except HeadraceError as error:
        return [Finding("bad", error.what, error.hint)]
    findings = [_holder(home)]
    if home.stat().st_mode & 0o077:
        findings.append(
            Finding("warn", "others than its owner can look into the home", f"chmod 700 {home}")
        )
    findings.append(
        Finding("ok", f"catalog version {catalog.version}: {len(catalog.queries)} queries")
    )
    findings += [
        Finding(
            "warn",
            f"query {r.name!r} is quarantined: {r.quarantine}",
            "mend it: drop it, add it again",
        )
        for r in catalog.queries.values()
        if r.quarantine
    ]
    streams = home / "streams"
    for folder in sorted(streams.iterdir()) if streams.is_dir() else []:
        findings += _stream(opened.disk, folder, catalog)
    return findings


def _holder(home: Path) -> Finding:
    lock = home / "lock"
    if not lock.exists():
        return Finding("ok", "no engine has run this home yet")
    try:
        what, hint = "the file `lock`", "remove it when no engine runs this home"
        with reading(lock, what, "HOME", hint), open(lock, "rb") as file:
            if not _is_free(file):
                return Finding(
                    "ok",
                    f"an engine runs this home: {file.read().decode(errors='replace').strip()}",
                )
    except HeadraceError as error:
        return Finding("bad", error.what, error.hint)
    return Finding("ok", "no engine runs this home now")


def _is_free(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stream(disk: Disk, folder: Path, catalog: Catalog) -> list[Finding]:
    name = unquote(folder.name)
    try:
        ledger = Ledger(disk, f"streams/{folder.name}")
        newest = ledger.newest
        if newest is None:
            findings = [Finding("ok", f"{name}: no round committed yet")]
        else:
            findings = [
                Finding(
                    "ok", f"{name}: {len(ledger.rounds)} rounds committed, newest {newest.round_id}"
                )
            ]
            check_catalog(ledger, catalog)
        ledger.check_sizes()
        for mark in ledger.kept_files():
            ledger.check(mark)
        SparkLogs(disk, ledger.folder).verify(newest)
    except HeadraceError as error:
        return [Finding("bad", f"{name}: {error.what}", _WAYS_OUT)]
    dead = list((folder / "dead").glob("*.jsonl"))
    if dead:
        what = f"{name}: rows that did not fit the schema in {len(dead)} rounds"
        findings.append(Finding("warn", what, f"they are in {folder / 'dead'}"))
    return findings
