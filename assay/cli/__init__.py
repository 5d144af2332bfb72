"""The `assay` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code (see verify/verdict.py)."""
    from assay.cli.commands import app

    app()
