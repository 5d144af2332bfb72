"""Faults in the transformations of programs."""

from assay.fuzz.mutants.mutant import Mutant

REWRITING = "propagate_indices|compose_views|inline"  # what shares one walk is named by the first pass that uses it wrongly
REWRITE, VIEWS, INDICES = "transforms/rewrite.py", "transforms/views.py", "transforms/indices.py"
INLINE, LAYOUT, SPLIT = "transforms/inline.py", "transforms/layout.py", "transforms/split.py"
MERGE, LOWER = "transforms/merge.py", "transforms/lower.py"

TABLE = (
    # ---------------------------------------------------------------- declared slopes
    Mutant("a declared slope is taken for the value", "drop_slopes", "transforms/slopes.py", "value = t.body.args[0]", "value = t.body.args[1]"),
    # ---------------------------------------------------------------- the walk of all
    Mutant("a let is inlined with its indices reversed", REWRITING, REWRITE,
           "value = substitute(t.body, dict(zip(axes(t.shape), idx, strict=True)))",
           "value = substitute(t.body, dict(zip(axes(t.shape), idx[::-1], strict=True)))"),
    Mutant("inlining forgets the lower guard of a pad", REWRITING, REWRITE, "        if i.lo < 0:\n", "        if i.lo < -(1 << 40):\n"),
    Mutant("inlining forgets the upper guard of a pad", REWRITING, REWRITE, "        if not below(i, n):\n", "        if not below(i, n + (1 << 40)):\n"),
    Mutant("the upper guard of a pad is off by one", REWRITING, REWRITE, 'op("lt", index(i), const(n, dt.i64))', 'op("le", index(i), const(n, dt.i64))'),
    Mutant("the lower guard of a pad is off by one", REWRITING, REWRITE, 'op("le", const(0, dt.i64), index(i))', 'op("lt", const(0, dt.i64), index(i))'),
    Mutant("a pad is filled with one", REWRITING, REWRITE, "index(i), const(n, dt.i64)), value, const(0, t.dtype))", "index(i), const(n, dt.i64)), value, const(1, t.dtype))"),
    Mutant("the arms of an inlined guard are swapped", REWRITING, REWRITE,
           'select(op("le", const(0, dt.i64), index(i)), value, const(0, t.dtype))', 'select(op("le", const(0, dt.i64), index(i)), const(0, t.dtype), value)'),
    Mutant("a guarded read of a rewritten tensor loses its guard", REWRITING, REWRITE,
           'return None if made is t else load_as(how, made, *idx)', "return None if made is t else load(made, *idx)"),
    Mutant("a rewritten tensor is read at reversed indices", REWRITING, REWRITE,
           'load_as(how, made, *idx)', 'load_as(how, made, *idx[::-1])'),
    Mutant("outputs come back in the other order", REWRITING, REWRITE, "[new[t] for t in p.outputs]", "[new[t] for t in p.outputs[::-1]]"),
    Mutant("the first output is returned for all", REWRITING, REWRITE, "[new[t] for t in p.outputs]", "[new[p.outputs[0]] for t in p.outputs]"),
    Mutant("checks are dropped by every rewriting", REWRITING, REWRITE, 'return [t for t in made if t.kind == "require"]', "return []"),
    Mutant("checks change their order", REWRITING, REWRITE, 'return [t for t in made if t.kind == "require"]', 'return [t for t in made if t.kind == "require"][::-1]'),
    Mutant("the last check is dropped", REWRITING, REWRITE, 'return [t for t in made if t.kind == "require"]', 'return [t for t in made if t.kind == "require"][:-1]'),
    Mutant("the base of a scatter may be inlined away", f"{REWRITING}|emit", REWRITE, "            whole.add(t.base)\n", "            pass\n"),
    Mutant("an argument of an extern may be inlined away", f"{REWRITING}|emit", REWRITE, "            whole.update(t.args)\n", "            pass\n"),
    # ---------------------------------------------------------------- propagate_indices
    Mutant("every check is taken for proved", "propagate_indices", INDICES, 'if t.kind == "require" and is_const(t.cond, True):', 'if t.kind == "require":'),
    Mutant("a check that never holds is taken for proved", "propagate_indices", INDICES, "is_const(t.cond, True)", "is_const(t.cond)"),
    Mutant("a check whose value cannot be negative is taken for proved", "propagate_indices", INDICES, "is_const(t.cond, True)", "(is_const(t.cond, True) or t.lo == 0)"),
    # ---------------------------------------------------------------- compose_views
    Mutant("a view of the shape of its source is taken for it", "compose_views", VIEWS, "inlined=lambda source, made: is_view(made))",
           "inlined=lambda source, made: is_view(made), replace=lambda t: t.body.attr[0] if is_view(t) and t.body.attr[0].shape == t.shape else t)"),
    # ---------------------------------------------------------------- choose_layout
    Mutant("a layout changes, and its readers do not", "choose_layout", LAYOUT, "where = permuted(idx, last[t]) if t in last else idx", "where = idx"),
    Mutant("readers of a changed layout permute the wrong axis", "choose_layout", LAYOUT, "return (*idx[:k], *idx[k + 1 :], idx[k])", "return (idx[k], *idx[:k], *idx[k + 1 :])"),
    Mutant("the body of a changed layout is not permuted", "choose_layout", LAYOUT, "(*i[:k], i[-1], *i[k:-1])", "i"),
    Mutant("a changed layout loses the guard of its readers", "choose_layout", LAYOUT, 'load_as(how, made, *where)', "load(made, *where)"),
    Mutant("the layout of an output is changed", "choose_layout", LAYOUT, 'if t.kind == "let" and t not in fixed and k is not None', 'if t.kind == "let" and k is not None'),
    # ---------------------------------------------------------------- split_exact_folds, which runs when a plan is chosen
    Mutant("float sums are split into lanes", "schedule", SPLIT, "or not row.monoid.is_exact(e.dtype) ", ""),
    Mutant("a split fold reads a lane twice", "schedule", SPLIT, "v: lanes * k + ix(lane)", "v: lanes * k + ix(lane) // 2"),
    Mutant("a split fold reads its lanes with the wrong stride", "schedule", SPLIT, "v: lanes * k + ix(lane)", "v: (lanes - 1) * k + ix(lane)"),
    Mutant("a split fold forgets its rest", "schedule", SPLIT, "return lang.fold(v.n % lanes, total,", "return lang.fold(0, total,"),
    Mutant("the rest of a split fold starts at the front", "schedule", SPLIT, "{v: k + whole * lanes}", "{v: k + 0 * lanes}"),
    Mutant("a split fold forgets what it started from", "schedule", SPLIT, "total = results[0] if init is neutral else combine(init, results[0])", "total = results[0]"),
    Mutant("a split fold counts its start in every lane", "schedule", SPLIT, "partial = lang.fold(whole, neutral,", "partial = lang.fold(whole, init,"),
    Mutant("the tree over lanes leaves one out", "schedule", SPLIT, "for j in range(lanes)]", "for j in range(lanes // 2)]"),
    Mutant("a step that reads its accumulator twice is split", "schedule", SPLIT, 'return None if any(x.op == "acc" for x in lang.walk((term,))) else row.monoid', "return row.monoid"),
    # ---------------------------------------------------------------- loop merging, which runs when a plan is chosen
    Mutant("merged axes are taken apart the wrong way round", "schedule|nest|cpp", MERGE, "(*i[:j], i[j] // b, i[j] % b, *i[j + 1 :])", "(*i[:j], i[j] % b, i[j] // b, *i[j + 1 :])"),
    Mutant("the last element of merged axes is lost", "schedule|nest|cpp", MERGE, "shape = (*t.shape[:j], t.shape[j] * b, *", "shape = (*t.shape[:j], t.shape[j] * b - 1, *"),
    Mutant("axes of size 2 are dropped as those of size 1 are", "schedule|nest|cpp", MERGE, "kept = [k for k, n in enumerate(t.shape) if n != 1]", "kept = [k for k, n in enumerate(t.shape) if n > 2]"),
    Mutant("axes are merged where one of several lets allows it", "schedule|nest|cpp", MERGE, "if all(m is not None for m in merged):", "if any(m is not None for m in merged):"),
    Mutant("a dropped axis of size 1 takes its neighbour along", "schedule|nest|cpp", MERGE, "for k, v in enumerate(axes(t.shape)) if k in new}", "for k, v in enumerate(axes(t.shape)[: len(new)]) if k in new}"),
    # ---------------------------------------------------------------- lowering
    Mutant("lowering loses the checks that no result reads", "lower|eager|graph", LOWER, "program(inputs, results, effects, graph.name)", "program(inputs, results, (), graph.name)"),
    Mutant("lowering keeps the last check only", "lower|eager|graph", LOWER, "program(inputs, results, effects, graph.name)", "program(inputs, results, effects[-1:], graph.name)"),
    Mutant("lowering reverses the order of checks", "lower|eager|graph", LOWER, "program(inputs, results, effects, graph.name)", "program(inputs, results, effects[::-1], graph.name)"),
    Mutant("lowering mixes up two results", "lower|eager|graph", LOWER, "program(inputs, results, effects, graph.name)", "program(inputs, results[::-1], effects, graph.name)"),
)  # fmt: skip
