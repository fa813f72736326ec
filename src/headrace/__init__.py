"""Headrace runs thousands of standing queries on one Spark stream for the price of one."""

from typing import TYPE_CHECKING

from headrace.config import Config
from headrace.engine import Engine
from headrace.errors import (
    CatalogError,
    HeadraceError,
    HeadraceWarning,
    HomeError,
    PlanError,
    RoundError,
    ServingError,
    SourceError,
    SQLError,
)
from headrace.reading import Answer, QueryInfo, last_seq
from headrace.runtime.statistics import RoundStats

if TYPE_CHECKING:
    from headrace.cost_attribution import QueryCost, StreamCost
    from headrace.describing import QueryDescription
    from headrace.families.joins.reading.notices import Notice

    __version__: str

NOT_INSTALLED = "0+not.installed"
"""The version that a source tree has for whoever imports it without installing it."""

__all__ = [
    "Answer",
    "CatalogError",
    "Config",
    "Engine",
    "HeadraceError",
    "HeadraceWarning",
    "HomeError",
    "Notice",
    "PlanError",
    "QueryCost",
    "QueryDescription",
    "QueryInfo",
    "RoundError",
    "RoundStats",
    "SQLError",
    "ServingError",
    "SourceError",
    "StreamCost",
    "last_seq",
]
_LATER = {
    "Notice": "headrace.families.joins.reading.notices",
    "QueryCost": "headrace.cost_attribution",
    "StreamCost": "headrace.cost_attribution",
    "QueryDescription": "headrace.describing",
}


def __getattr__(name: str) -> object:
    """Types whose modules load compiled kernels come when they are asked for, and the version, of
    which most runs never speak."""
    if name == "__version__":
        return _version()
    if name not in _LATER:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def _version() -> str:
    """The number is in `pyproject.toml` only; installing writes it beside the package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return NOT_INSTALLED
