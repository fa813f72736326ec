"""Weave Share: which windows share trees of partial aggregates, and what that costs
(docs/weave.md)."""
