"""Headrace runs thousands of standing queries on one Spark stream for the price of one."""

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

__version__ = "0.1.0"

__all__ = [
    "CatalogError", "Config", "Engine", "HeadraceError", "HeadraceWarning", "HomeError", "PlanError", "RoundError",
    "SQLError", "ServingError", "SourceError",
]
