"""Weave Share: the figures of CIKM'11, the other plans it is measured against, and its drift."""
