"""Readings of the core language: its bits (denote), integer intervals, memory accesses, costs, ..., one a file."""
