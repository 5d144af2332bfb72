"""parse(show(p)) is p; the printed form; errors of the parser."""

import math

import pytest
from hypothesis import HealthCheck, given, settings

import assay.core.functions  # noqa: F401
from assay.core import dtypes as dt
from assay.core.errors import UserError
from assay.core.lang import Program
from assay.core.text import parse, show
from tests.core.random_programs import programs


@given(programs())
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_round_trip(p: Program) -> None:
    assert parse(show(p)) is p
