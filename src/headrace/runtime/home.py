"""The home folder: everything durable, one format, one running engine at a time.

home/HEADRACE                     format and id
home/catalog.log                  streams, tables, queries (headrace.catalog)
home/tmp                          Spark's temporary files, gone when it ends
home/logs                         what Spark and Java say (runtime/spark_log.py)
home/package                      on a cluster: what executors import
home/lock, home/epoch             who runs it, and how many engines have so far
home/streams/<name>/checkpoint    Spark's own logs
                   /rounds        a manifest for each committed round: the truth
                   /newest        the newest round, to notice when its manifest is lost
                   /answers       answers by round
                   /dead          rows that did not fit, or whose event time is not taken
                   /kept          rows of the relation by round, and whom they affect
                   /present       present answers of changing queries; the newest manifest names them
                   /rows          rows that plain queries over a stream still need, by round
                   /panes         what rounds added to the panes of windows
                   /folded        panes of old rounds, folded; the newest manifest names them
                   /shards        the same, of windows in shards: a part for each; folded ones below
                   /levels        queries of joins as workers look them up; the same
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

from headrace.disk import PRIVATE_FOLDER, Disk
from headrace.errors import HomeError
from headrace.records import decode, reading

FORMAT = 6
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # a drive of Windows has one letter
MARK = "HEADRACE"
# of every stream; families add their own (`Job.folders`)
STREAM_FOLDERS = (
    "rounds",
    "answers",
    "dead",
)


@dataclass(frozen=True, slots=True)
class _Mark:
    format: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class _Epoch:
    epoch: int


class Home:
    """Opens a home, making it where there is none.  Running it needs `hold`."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        check_place(root)
        self.root = root
        self.disk = disk or Disk(root)
        self.epoch = 0
        self._lock: IO[bytes] | None = None
        try:
            self._open()
        except (
            OSError,
            ValueError,
        ) as error:  # a folder nobody may look into, a name too long or with a NUL
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise HomeError(
                "the home cannot be opened",
                value=f"{reason}: {str(root)!r}",
                hint="name a folder that this user may read and write",
            ) from error

    def stream_folder(self, name: str) -> str:
        """The folder of a stream or table, made with its parts if it is missing."""
        folder = f"streams/{quote(name, safe='')}"
        for part in STREAM_FOLDERS:
            self.disk.make_folder(f"{folder}/{part}")
        return folder

    def stream_folders(self) -> list[str]:
        """The folders of streams and tables there are."""
        streams = self.root / "streams"
        return sorted(f"streams/{p.name}" for p in streams.iterdir()) if streams.is_dir() else []

    # -- one engine --------------------------------------------------------------------------------

    def hold(self) -> None:
        """Become the one engine that runs this home, or say who is."""
        if self._lock is not None:
            return
        file = self.disk.open_lock("lock")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().decode(errors="replace").strip() or "unknown"
            file.close()
            raise HomeError(
                "another engine runs this home",
                value=owner,
                hint="stop it first, or use another home folder",
                code="HOME_HELD",
            ) from error
        self._lock = file
        try:
            self._take_over(file)
        except BaseException:
            self.release()
            raise

    def check_held(self) -> None:
        """Before a commit: an engine that was stopped while another took over must not go on."""
        now = self._read_epoch()
        if self._lock is None or now != self.epoch:
            raise HomeError(
                "this engine has lost the home to another one",
                value=f"epoch {self.epoch}, the home is at {now}",
                hint="nothing of this round was committed; close this engine",
                code="HOME_LOST",
            )

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _read_epoch(self) -> int:
        path = self.root / "epoch"
        if not path.exists():
            return 0
        with reading(
            path,
            "the file `epoch`",
            "HOME",
            "restore it, or remove it when no engine runs this home",
        ):
            return decode(_Epoch, json.loads(path.read_bytes())).epoch

    def _take_over(self, lock: IO[bytes]) -> None:
        self.epoch = self._read_epoch() + 1
        with suppress(OSError):  # says who we are; the lock holds without it
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
            lock.flush()
        self.disk.put_aside("epoch", json.dumps({"epoch": self.epoch}).encode())
        self._settle()

    def _settle(self) -> None:
        """Folders an earlier owner made and was killed before it could sync."""
        folders = self.stream_folders()
        for place in (".", *(["streams"] if folders else []), *folders):
            self.disk.sync(place)

    # -- format ------------------------------------------------------------------------------------

    def _open(self) -> None:
        mark = self.root / MARK
        if mark.exists():
            self._check(mark)
            self._tighten()
            return
        if self.root.exists() and not self.root.is_dir():
            raise HomeError(
                "the home is not a folder",
                value=str(self.root),
                hint="name a folder, or one to be made",
            )
        ours = {MARK + ".part", "lock", "epoch", "catalog.lock"}
        others = (
            [p.name for p in self.root.iterdir() if p.name not in ours]
            if self.root.exists()
            else []
        )
        if others:
            raise HomeError(
                "the folder is not a Headrace home, and not empty",
                value=f"{self.root} holds {sorted(others)[0]}",
                hint="name an empty or new folder"
                if "catalog.log" not in others
                else f"restore its file {MARK}",
            )
        self.disk.make_root()
        self._tighten()
        self.disk.put_aside(MARK, json.dumps({"format": FORMAT, "id": str(uuid.uuid4())}).encode())

    def _tighten(self) -> None:
        """Only its owner looks into a home; a folder that was there before is shut now."""
        if self.root.stat().st_mode & 0o077:
            with suppress(OSError):  # it belongs to another user: `headrace doctor` says so
                self.root.chmod(PRIVATE_FOLDER)

    def _check(self, mark: Path) -> None:
        with reading(mark, f"the file {MARK} of the home", "HOME", "restore it from a backup"):
            found = decode(_Mark, json.loads(mark.read_bytes())).format
        if found != FORMAT:
            raise HomeError(
                "the home is of another version",
                value=f"format {found}",
                choices=(f"format {FORMAT}",),
                hint="`headrace migrate` brings an older home to this format; a newer one is for the version "
                "of Headrace that made it",
                code="HOME_VERSION",
            )


def check_place(home: str | Path) -> None:
    """A home is a folder: renamed files, locks and synced writes are what its promises are made
    of."""
    found = _ADDRESS.match(str(home))
    if found is None:
        return
    scheme = found[1].lower()
    folder = "/" + str(home)[found.end() :].lstrip("/")
    raise HomeError(
        "a home is a folder of this machine's file system, not an address",
        value=str(home),
        hint=f"name the folder itself: {folder}"
        if scheme == "file"
        else "use a folder that every machine of the cluster mounts at the same path (NFS, CephFS, Lustre, EFS): "
        f"{scheme}: has no locks and no renames that last. Sources may be read from there",
        code="HOME_PLACE",
    )
