"""Other names of an operator reach it: as functions, as methods, in place; a graph records the operator."""

import numpy as np
import pytest

import assay
from assay.core.operators.registry import ALIASES


@pytest.mark.parametrize("alias", ALIASES)
def test_functions(alias: str) -> None:
    assert getattr(assay, alias).__doc__ == getattr(assay, ALIASES[alias]).__doc__


def test_methods() -> None:
    x = assay.tensor([1.0, -2.0, 3.0])
    assert x.clip(0, 1).tolist() == [1.0, 0.0, 1.0]
    assert x.multiply(2).tolist() == [2.0, -4.0, 6.0]
    assert x.greater(0).tolist() == [True, False, True]
    assert assay.arctan2(x, x).tolist() == assay.atan2(x, x).tolist()
    assert x.clip_(0, 2) is x
    assert np.array_equal(x.numpy(), [1.0, 0.0, 2.0])


def test_a_graph_records_the_operator() -> None:
    graph = assay.trace(lambda x: x.absolute().true_divide(2), assay.ones(3))
    assert "abs.default" in str(graph)
    assert "div.Scalar" in str(graph)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        assay.tensor([1.0]).clipp(0, 1)
    with pytest.raises(AttributeError):
        assay.clipp  # noqa: B018
