"""The `assay` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code (see verify/verdict.py)."""
    try:
        from assay.cli.commands import app

        app()
    except KeyboardInterrupt:  # before a command began, or after it had ended
        from assay.verify.verdict import INTERRUPTED

        sys.stderr.write("assay: interrupted\n")
        sys.exit(INTERRUPTED)
