"""Section 6.6: each threshold decides at n and not at n - 1; the same program differs between devices."""

import pytest

from assay.core import dtypes as dt
from assay.core.lang import const, fold, input, op, program, tensor
from assay.transforms.inline import CPU, CPU_DOCUMENT, GPU_DOCUMENT, contraction_operands, inline

X = input("x", (64, 128), dt.f32)
MORE = [input(f"m{k}", (64, 128), dt.f32) for k in range(20)]


def chain(n, x=X):
    """A let of n additions of one load."""
    return tensor((64, 128), lambda i, j: _chain(n, x[i, j]))


def _chain(n, e):
    for _ in range(n):
        e = op("add", e, 1.5)
    return e


def readers(t, k):
    """k outputs that read t."""
    return [tensor((64, 128), lambda i, j, q=q: op("mul", t[i, j], float(q + 2))) for q in range(k)]


def stored(t, k, policy):
    """Whether t survives the pass when k outputs read it."""
    p = program((X, *MORE), readers(t, k))
    return len(inline(p, policy=policy).tensors) > k


def reading(n):
    """A let that reads n buffers."""
    return tensor((64, 128), lambda i, j: _sum([m[i, j] for m in MORE[:n]]))


def loading(n):
    """A let that loads n elements of two buffers."""
    return tensor((64, 100), lambda i, j: _sum([MORE[q % 2][i, j + q] for q in range(n)]))


def _sum(es):
    total = es[0]
    for e in es[1:]:
        total = total + e
    return total


def exp_of(x=X):
    return tensor((64, 128), lambda i, j: op("exp", x[i, j]))


RULES = [
    ("single user is never stored", chain(200), 1, CPU_DOCUMENT, False),
    ("single user is never stored, exp", exp_of(), 1, CPU_DOCUMENT, False),
    ("exp with two users, cpu", exp_of(), 2, CPU_DOCUMENT, True),
    ("exp with two users, gpu", exp_of(), 2, GPU_DOCUMENT, False),
    ("50 operations, cpu", chain(50), 2, CPU_DOCUMENT, False),
    ("51 operations, cpu", chain(51), 2, CPU_DOCUMENT, True),
    ("30 operations, gpu", chain(30), 2, GPU_DOCUMENT, False),
    ("31 operations, gpu", chain(31), 2, GPU_DOCUMENT, True),
    ("5 users of 26 operations", chain(26), 5, CPU_DOCUMENT, False),
    ("6 users of 26 operations", chain(26), 6, CPU_DOCUMENT, True),
    ("6 users of 25 operations", chain(25), 6, CPU_DOCUMENT, False),
    ("4 buffers", reading(4), 2, CPU_DOCUMENT, False),
    ("5 buffers", reading(5), 2, CPU_DOCUMENT, True),
]


@pytest.mark.parametrize(("name", "t", "k", "policy", "expected"), RULES, ids=[r[0] for r in RULES])
def test_threshold(name, t, k, policy, expected):
    assert stored(t, k, policy) is expected


@pytest.mark.parametrize(("n", "policy", "expected"), [(12, CPU_DOCUMENT, False), (13, CPU_DOCUMENT, True),
                                                       (8, GPU_DOCUMENT, False), (9, GPU_DOCUMENT, True)])  # fmt: skip
def test_91_accumulated_reads(n, policy, expected):
    t = loading(n)
    outputs = [tensor((64, 100), lambda i, j, q=q: op("mul", t[i, j], float(q + 2))) for q in range(2)]
    assert (len(inline(program((X, *MORE), outputs), policy=policy).tensors) > 2) is expected


def test_operands_of_contractions_are_stored_by_the_product_policy_only():
    w = input("w", (128, 32), dt.f32)
    a = tensor((64, 128), lambda i, k: op("relu", X[i, k]))
    c = tensor((64, 32), lambda i, j: fold(128, const(0.0, dt.f32), lambda s, k: op("fma", a[i, k], w[k, j], s)))
    p = program((X, w), (c,))
    assert contraction_operands(p) == {a}
    assert len(inline(p, policy=CPU).tensors) == 2
    assert len(inline(p, policy=CPU_DOCUMENT).tensors) == 1


def test_95_each_decision_carries_the_cost_model():
    seen = []
    inline(program((X,), readers(exp_of(), 2)), log=seen.append)
    (first,) = [d for d in seen if d.tensor.body.op == "exp"]
    n, b, c, q, k = 64 * 128, 4, 1, 4, 2
    once = n * (c / CPU.flops + q / CPU.bandwidth)
    assert first.realised
    assert first.rule == "exp with 2 readers"
    assert first.model.inline == pytest.approx(k * once)
    assert first.model.realise == pytest.approx(once + (k + 1) * n * b / CPU.bandwidth)


def test_95_with_one_reader_the_model_always_inlines():
    seen = []
    inline(program((X,), readers(chain(9), 1)), log=seen.append)
    assert all(d.model.inline < d.model.realise for d in seen if d.readers == 1)
