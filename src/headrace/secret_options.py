"""Secrets of sources: named in an option as `secret:NAME`, looked up when the source is opened, and
never printed.

A password that stands in an option would stand in the catalog's log and in every message that
quotes the source.  So an option that may hold one takes a reference only.  NAME is looked up in the
environment, then in the file that the setting `secrets_file` names (lines `NAME=value`, readable by
its owner only).
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from headrace.errors import SourceError, hide

REFERENCE = "secret:"
_SECRET = re.compile(r"passw|secret|token|credential|jaas|sasl|(?:api|access|private)\.?key", re.I)
_OPEN = ("kafka.sasl.mechanism",)
_PORT = re.compile(r"[^/:@]*:\d{1,5}/[^:]*$")
_WITH_PORTS = ("hdfs", "webhdfs", "viewfs", "http", "https")
_NAME = re.compile(r"[A-Za-z_]\w*")
_INNER = re.compile(r"""=\s*(?:"([^"]+)"|'([^']+)'|([^\s;"']+))""")


def may_be_secret(option: str) -> bool:
    """Whether an option may hold what nobody should read."""
    return option not in _OPEN and _SECRET.search(option) is not None


def check_reference(option: str, value: str) -> None:
    """An option that may hold a secret names one; the value is not repeated."""
    if may_be_secret(option) and not is_reference(value):
        raise SourceError(
            f"the option {option} may hold a secret, and would stand in the catalog as it is",
            value="(not shown)",
            choices=(f"{option}={REFERENCE}NAME",),
            code="SECRET_LITERAL",
            hint="set NAME in the environment, or in the file that the setting secrets_file names, to the value",
        )


def check_address(kind: str, place: str) -> None:
    """A user and password before the host would be printed with the source.  A password may hold a
    slash, and some hosts have an @ of their own (abfss://container@account): so `:` before an @ is
    a password, but for a port."""
    scheme, _, address = place.rpartition("://")
    before = address.rpartition("@")[0]
    is_secret = ":" in before and not (scheme in _WITH_PORTS and _PORT.match(before))
    if is_secret or (kind == "kafka" and "@" in address):
        raise SourceError(
            "the address of a source must not hold a user or a password",
            value=f"{kind}:(not shown)",
            code="SECRET_LITERAL",
            hint="leave out what is before the @, and give it by an option that names a secret (secret:NAME)",
        )


def is_reference(value: str) -> bool:
    return (
        value.startswith(REFERENCE) and _NAME.fullmatch(value.removeprefix(REFERENCE)) is not None
    )


def resolve(option: str, value: str, secrets_file: str) -> str:
    """The value that an option stands for.  Messages will not print it from now on."""
    if not may_be_secret(option) or not is_reference(value):
        return value
    name = value.removeprefix(REFERENCE)
    found = os.environ.get(name)
    if found is None:
        found = _from_file(secrets_file).get(name) if secrets_file else None
    if found is None:
        raise SourceError(
            f"the secret {name} of the option {option} is not there",
            code="SECRET_MISSING",
            choices=("the environment", secrets_file or "secrets_file (not set)"),
            hint=f"set {name} in the environment of the engine, or write {name}=value into secrets_file",
        )
    hide(found, *(part for parts in _INNER.findall(found) for part in parts))
    return found


def _from_file(place: str) -> dict[str, str]:
    path = Path(place).expanduser()
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode) and mode & 0o077:
            raise SourceError(
                "the file of secrets can be read by others",
                value=f"{path} has mode {mode & 0o777:o}",
                hint=f"chmod 600 {path}",
                code="SECRETS_FILE",
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else _reason(error)
        raise SourceError(
            "the file of secrets cannot be read",
            value=f"{path}: {reason}",
            code="SECRETS_FILE",
            hint="secrets_file names a file with lines NAME=value, of mode 600",
        ) from error
    pairs = (
        line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#")
    )
    return {name.strip(): value for name, _, value in pairs}


def _reason(error: ValueError) -> str:
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
