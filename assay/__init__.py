"""Assay: a reference tensor compiler that proves its own work, and a differential tester for everybody else's."""

__version__ = "0.1.0"
