"""The transformer block under memory budgets: fewer bytes, more time, the same gradients."""

from assay.partition.budget import frontier
from examples.transformer.budgets import partitions, plot


def test_fewer_bytes_take_more_time() -> None:
    found = [made for made, _ in partitions(backend="reference", calls=0)]
    assert found[0].saved_bytes > 2 * found[1].saved_bytes - 1 > 0
    assert [p.time for p in found] == sorted(p.time for p in found)
    points = frontier(found[0].split.joint)
    text = plot(points, found)
    assert text.count("<circle") == 3
    assert text.count(",") > len(points)
