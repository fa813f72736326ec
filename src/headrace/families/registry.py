"""The families, and which of them runs a query."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog.catalog import Registered
from headrace.families.contract import Claim, Family, RelationOf
from headrace.families.joins.family import Joins
from headrace.families.plain.family import Plain
from headrace.families.windows.family import Windows
from headrace.sql.query import Query

FAMILIES: tuple[Family, ...] = (Windows(), Joins(), Plain())
"""In the order they are asked: the first that claims a query runs it.  The last shares nothing and
takes every query."""


@dataclass(frozen=True, slots=True)
class Run:
    """Who runs a query, with its claim; `reason`: why nobody shares it, if nobody does."""

    family: Family
    claim: Claim
    reason: str


def run_of(query: Query, relation_of: RelationOf) -> Run:
    """The last that has something to say of a query it refuses knows the query best."""
    *sharing, last = FAMILIES
    reason = ""
    for family in sharing:
        found = family.claims(query, relation_of)
        if isinstance(found, Claim):
            return Run(family, found, "")
        reason = found.reason or reason
    claim = last.claims(query, relation_of)
    assert isinstance(claim, Claim), "the last family takes every query"
    return Run(last, claim, reason)


def family_of(registered: Registered, relation_of: RelationOf) -> Family:
    return run_of(registered.query, relation_of).family
