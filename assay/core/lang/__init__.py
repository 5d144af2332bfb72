"""The core language: scalar expressions E, tensors T, programs.  Its executable meaning is semantics/denote.py.

    E = const(bits) | load(T, Ix...) | idx(Ix) | acc | fold(n; inits; steps) | proj(fold, k) | scalar function(E...)
    T = input | let(shape, E) | require(shape, E, cond) | scan(E) | scatter(T, domain, Ix..., E) | extern(name, T...)
    Program = inputs, outputs, effects

Nodes are frozen and interned: equal text is the same object, so CSE is construction and DCE is reachability.
Materialising a value is a `let` boundary (theorem 6.1).  In the body of a tensor the axes are the variables of
level 0..rank-1.  A bound variable is named by 1 + the highest free level of its fold: the name does not depend on
the context, so alpha-equal folds are identical and substitution cannot capture.

Creation order is a topological order: `a.id < b.id` whenever b depends on a.

Loads are total: outside the domain they give 0.  A plain `load` carries the obligation "in bounds on this path",
which verify/bounds.py settles before a backend may print it; only pads use `load_or_zero`.
"""

from assay.core.index import Ix, Var, affine
from assay.core.lang.bind import bind, bind_tensors
from assay.core.lang.expressions import (
    LOADS,
    E,
    Index,
    Number,
    Operand,
    apply_row,
    as_index,
    bitcast,
    const,
    const_bits,
    constant_value,
    convert,
    expand,
    index,
    is_const,
    load,
    load_as,
    load_or_zero,
    op,
    postorder,
    select,
    walk,
)
from assay.core.lang.folds import (
    Environment,
    OnLoad,
    acc,
    accumulators,
    close_fold,
    fold,
    fold_results,
    folds,
    open_fold,
    own_accumulators,
    proj,
    rebuild,
    substitute,
    substitute_all,
)
from assay.core.lang.programs import Program, program, reading_order, requires, size_of
from assay.core.lang.tensors import (
    T,
    axes,
    bodies,
    exactly,
    extern,
    input,
    let,
    order,
    recorded_requires,
    require,
    rewrite_tensor,
    scan,
    scatter,
    tensor,
)

__all__ = [
    "LOADS", "E", "Environment", "Index", "Ix", "Number", "OnLoad", "Operand", "Program", "T", "Var", "acc", "accumulators",
    "affine", "apply_row", "as_index", "axes", "bind", "bind_tensors", "bitcast", "bodies", "close_fold", "const", "const_bits",
    "constant_value", "convert", "exactly", "expand", "extern", "fold", "fold_results", "folds", "index", "input", "is_const",
    "let", "load", "load_as", "load_or_zero", "op", "open_fold", "order", "own_accumulators", "postorder", "program", "proj",
    "reading_order", "rebuild", "recorded_requires", "require", "requires", "rewrite_tensor", "scan", "scatter", "select",
    "size_of", "substitute", "substitute_all", "tensor", "walk",
]  # fmt: skip
