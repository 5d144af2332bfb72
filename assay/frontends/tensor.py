"""Tensor: a mutable handle, used as torch.Tensor is.

Its methods are the operators whose first parameter is a tensor (x.sum(-1), x.unsqueeze(0), x.add_(y)), found in the operator
table by name.  What needs the elements themselves (x.item(), bool(x), x.numpy()) works outside a capture only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from assay.core import dtypes
from assay.core.dtypes import DType
from assay.core.errors import UserError
from assay.core.operators.registry import TENSOR_TYPES
from assay.frontends import dispatch, numpy_calls, source
from assay.frontends.arithmetic import Arithmetic
from assay.frontends.autograd import AUTOGRAD, BackwardError, Edge, Leaf, check_level, check_like, make_leaf, twin
from assay.frontends.cell import Cell, Chain, Link, current, new_cell, read, write
from assay.frontends.layout import is_contiguous
from assay.frontends.value import STATE, Value, is_annotated

Signature = tuple[tuple[int, ...], DType, "tuple[int, ...] | None"]


class Tensor(Arithmetic):
    """An n-dimensional array of one element type; created by assay.tensor, from_numpy, zeros, ... and by operators."""

    __slots__ = ("__weakref__", "_shown", "cell", "chain", "quick")

    def __init__(self, cell: Cell, chain: Chain = ()) -> None:
        self.cell = cell
        self.chain = chain
        self._shown: tuple[Cell, int, Value] | None = None  # of a view: what it showed, of which cell, at which version
        self.quick: tuple[Signature, np.ndarray | None] | None = None  # see `described`

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """numpy's operators with a tensor on the right are the tensor's own; its other functions take no tensors (UserError)."""
        own = numpy_calls.reflected(ufunc, method, inputs, options)
        if own is None:
            raise source.located(numpy_calls.refused(ufunc.__name__))
        left = inputs[0]  # of a comparison with a scalar of numpy: that scalar as an array
        return own(left[()] if isinstance(left, np.ndarray) and not left.ndim else left)

    # -------------------------------------------------------------------------------------------- storage

    @property
    def value(self) -> Value:
        """What the handle shows now, as an immutable value.

        In eager evaluation a view, once made, stays: writes go to the memory that it shares.  It is made again where they
        changed what some level knows of the storage.
        """
        cell = current(self.cell)
        if not self.chain:
            return cell.value
        shown = self._shown
        if shown is None or shown[0] is not cell or (shown[1] != cell.version and (cell.annotated or STATE.trace is not None)):
            shown = self._shown = (cell, cell.version, read(cell, self.chain))
        return shown[2]

    def write(self, new: Value, writer: str) -> None:
        """Store a value of the same shape and type."""
        write(current(self.cell), self.chain, self.value, new, writer)

    def viewed(self, link: Link, value: Value) -> Tensor:
        """The handle of one more view, which shows `value` now."""
        made = Tensor(self.cell, (*self.chain, link))
        cell = current(self.cell)
        if value.array is not None:
            value.writes = cell.writes
        made.show(value)
        return made

    def show(self, value: Value) -> None:
        """The view shows this value of its cell now."""
        cell = current(self.cell)
        self._shown = (cell, cell.version, value)

    def described(self) -> tuple[Signature, np.ndarray | None]:
        """Signature and memory, kept in `quick` so that a compiled call reads them in one step."""
        v = self.value
        signature = (v.shape, v.dtype, None if is_contiguous(v.shape, v.strides) else v.strides)
        made = (signature, v.array)
        if STATE.trace is None:
            self.quick = made
        return made

    @property
    def signature(self) -> Signature:
        """Shape, type, and the strides where they are not row-major."""
        return (self.quick or self.described())[0]

    # -------------------------------------------------------------------------------------------- shape and type

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.signature[0]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.signature[1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def device(self) -> str:
        """Always "cpu"."""
        return "cpu"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def dim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or one of them."""
        strides = self.value.strides
        return strides if dim is None else strides[dim]

    def numel(self) -> int:
        """The number of elements."""
        n = 1
        for s in self.shape:
            n *= s
        return n

    nelement = numel

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether the elements lie row-major without gaps."""
        return self.signature[2] is None

    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous, else a copy that is."""
        return self if self.is_contiguous() else self.clone()

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.is_float

    def ravel(self) -> Tensor:
        """The elements in row-major order along one axis; shares storage where strides allow it."""
        return self.reshape((-1,))

    def reshape_as(self, other: Tensor) -> Tensor:
        """x in the shape of `other`."""
        return self.reshape(other.shape)

    # -------------------------------------------------------------------------------------------- gradients

    @property
    def requires_grad(self) -> bool:
        """Whether backward() gives it, or what it was computed from, a gradient."""
        return self._history() is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:  # noqa: FBT001, FBT002
        """From now on, operators on this tensor are recorded, and backward() leaves its gradient in `grad`.

        Raises BackwardError for elements that are not floats, and for False where the tensor is a result of others.
        """
        v = self.value
        edge = v.meta.get(AUTOGRAD)
        if requires_grad and edge is None:
            if not v.dtype.is_float:
                what = f"{v.dtype.name}{list(v.shape)}"
                raise source.located(BackwardError(f"requires_grad: only floats have gradients, and this tensor is {what}"))
            if self.chain and v.array is not None:  # a storage of its own over the same memory
                self.cell, self.chain = Cell(v.array, owner=STATE.trace), ()
                self.cell.writes = v.writes or self.cell.writes
                v = self.value
            make_leaf(v)
            self.cell.annotated = True
        elif not requires_grad and edge is not None:
            if type(edge[0]) is not Leaf:
                what = "a result of recorded operators; detach() is the tensor without history"
                raise source.located(BackwardError(f"requires_grad = False of {what}"))
            del v.meta[AUTOGRAD]
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operator made it."""
        edge = self._history()
        return edge is None or type(edge[0]) is Leaf

    @property
    def grad_fn(self) -> Any:
        """The node of the recorded operator that made it; None for a leaf."""
        edge = self._history()
        return None if edge is None or type(edge[0]) is Leaf else edge[0]

    @property
    def grad(self) -> Tensor | None:
        """What backward() has added up for this leaf (or, after retain_grad(), for this result); None: nothing."""
        edge = self._history()
        if edge is None:
            return None
        node, k = edge
        if type(node) is Leaf:
            return node.grad
        return (node.found or {}).get(k)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        edge = self._history()
        if grad is not None:
            if not isinstance(grad, Tensor):
                raise TypeError(f"{source.quoted()}  .grad is a tensor or None, not {type(grad).__name__}")
            if edge is None or type(edge[0]) is not Leaf:
                raise source.located(BackwardError("only a leaf that requires a gradient has a .grad to be set"))
            check_like(self.value, grad.value, "gradient")
        if edge is not None and type(edge[0]) is Leaf:
            edge[0].grad = grad
        elif edge is not None and edge[0].found is not None:
            edge[0].found.pop(edge[1], None)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def backward(self, gradient: Tensor | None = None, retain_graph: bool | None = None,  # noqa: FBT001
                 create_graph: bool = False, inputs: Any = None) -> None:  # noqa: FBT001, FBT002  # fmt: skip
        """Add d self / d leaf, times `gradient`, to the `grad` of every leaf (or of `inputs`); see assay.autograd.backward."""
        from assay.frontends.gradients import backward

        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """Have backward() add the gradient to `grad`, though it is not a leaf."""
        edge = self._edge("retain_grad()")
        if type(edge[0]) is not Leaf:
            edge[0].retained = {edge[1], *(edge[0].retained or ())}

    @property
    def retains_grad(self) -> bool:
        """Whether retain_grad() was said of this result."""
        edge = self.value.meta.get(AUTOGRAD)
        return edge is not None and edge[1] in (edge[0].retained or ())

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Hooked:
        """hook(gradient) is called when the gradient of this tensor is complete; what it returns, if anything, replaces it.

        Several are called in the order in which they were registered, each with what the one before left.
        """
        edge = self._edge("register_hook()")

        def on_value(g: Value) -> Value | None:
            made = hook(fresh(g))
            if made is not None and not isinstance(made, Tensor):
                what = f"this one a {type(made).__name__}"
                raise TypeError(f"a hook returns a tensor, or None to leave the gradient as it is; {what}")
            return None if made is None else made.value

        edge[0].hooks = edge[0].hooks or {}
        return Hooked(edge[0].hooks.setdefault(edge[1], {}), on_value)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Hooked:
        """hook(this leaf) is called whenever backward() has added to its `grad`: a step of an optimiser, say.

        Raises BackwardError for a result of others.
        """
        leaf = self._edge("register_post_accumulate_grad_hook()")[0]
        if type(leaf) is not Leaf:
            raise BackwardError(f"{source.quoted()}  only a leaf accumulates a gradient; of a result use register_hook()")
        leaf.after = leaf.after or {}
        return Hooked(leaf.after, lambda: hook(self))

    def detach_(self) -> Tensor:
        """The tensor without its history, from now on; operators that used it keep theirs.  Raises BackwardError for a view."""
        if self.chain:
            raise BackwardError(f"{source.quoted()}  detach_() of a view would cut what it is a view of; use detach()")
        current(self.cell).detach()
        return self

    @property
    def _version(self) -> int:
        """How often the memory was written in place."""
        return current(self.cell).version

    def _history(self) -> Edge | None:
        """Where its gradient goes; a capture starts again with a level that knows it."""
        edge = self.value.meta.get(AUTOGRAD)
        if edge is None and STATE.trace is not None:
            check_level()
        return edge

    def _edge(self, what: str) -> Edge:
        edge = self._history()
        if edge is None:
            raise BackwardError(f"{source.quoted()}  {what} of a tensor that does not require a gradient")
        if STATE.trace is not None:
            STATE.trace.hooked.append((source.where(), edge[0]))
        return edge

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._elements("data_ptr()").__array_interface__["data"][0]

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return self.permute(tuple(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    @property
    def data(self) -> Tensor:
        """The same storage, without history."""
        return self.detach()

    @data.setter
    def data(self, new: Tensor) -> None:
        """From now on the tensor has the storage of `new`; it stays the leaf that it is, with its gradient.

        Raises UserError for a result of others, another type, and in a capture.
        """
        edge = self._history()
        if STATE.trace is not None or (edge is not None and type(edge[0]) is not Leaf):
            where = "in a captured function" if STATE.trace is not None else "of a result of recorded operators"
            raise UserError(f"{source.quoted()}  x.data = ... {where}: write in its memory, x.data.copy_(...)")
        if new.dtype is not self.dtype:
            raise UserError(f"{source.quoted()}  x.data = a {new.dtype.name} tensor; x is {self.dtype.name}")
        made = new.detach()
        value = twin(made.value)
        if edge is not None:
            value.meta[AUTOGRAD] = edge
        self.cell, self.chain, self._shown, self.quick = Cell(value.array, value), (), None, None

    # -------------------------------------------------------------------------------------------- conversions

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """x.to(dtype), x.to(other), x.to("cpu"): the tensor itself where nothing changes.

        Raises UserError for another device.
        """
        copy = bool(kwargs.pop("copy", False))
        kwargs.pop("non_blocking", None)
        wanted = [*args, *kwargs.values()]
        dtype = self.dtype
        for w in wanted:
            if isinstance(w, Tensor):
                dtype = w.dtype
            elif w is None or isinstance(w, bool) or str(w) == "cpu":
                continue
            elif isinstance(w, str) and w.partition(":")[0] in ("cuda", "mps", "xpu", "meta", "hip"):
                raise source.located(UserError(f"to({w!r}): tensors live in the memory of the CPU; allowed: 'cpu'"))
            else:
                dtype = dispatch.dtype_of(w)
        if dtype is self.dtype:
            return self.clone() if copy else self
        return dispatch.call("to.dtype", (self, dtype), {})

    def float(self) -> Tensor:
        """x as f32."""
        return self.to(dtypes.f32)

    def double(self) -> Tensor:
        """x as f64."""
        return self.to(dtypes.f64)

    def half(self) -> Tensor:
        """x as f16."""
        return self.to(dtypes.f16)

    def bfloat16(self) -> Tensor:
        """x as bf16."""
        return self.to(dtypes.bf16)

    def int(self) -> Tensor:
        """x as i32."""
        return self.to(dtypes.i32)

    def long(self) -> Tensor:
        """x as i64."""
        return self.to(dtypes.i64)

    def bool(self) -> Tensor:
        """x as bool: x != 0."""
        return self.to(dtypes.bool_)

    def cpu(self) -> Tensor:
        """The tensor itself."""
        return self

    def type(self, dtype: Any) -> Tensor:
        """x as another type."""
        return self.to(dtype)

    def type_as(self, other: Tensor) -> Tensor:
        """x in the type of `other`."""
        return self.to(other.dtype)

    def _elements(self, what: str) -> np.ndarray:
        """The array behind the handle; an error at the user's line where it is not known, as in a capture."""
        v = self.value
        if v.array is None:
            raise UserError(
                f"{source.quoted()}  {what} needs the elements of a {v.dtype.name}{list(v.shape)} tensor, which are not known "
                "while the function is captured: a captured function cannot depend on data in Python.\n"
                "  Instead: assay.where(condition, a, b) for a choice, tensor operators for arithmetic (x.sum(), x.amax()), "
                "a fixed size where a number is needed, or x.item() taken outside and given as an argument, "
                "or end the compiled function here and go on in plain Python with its result."
            )
        return v.array

    def numpy(self) -> np.ndarray:
        """The elements as a numpy array that shares the memory.  Raises UserError where it requires a gradient."""
        return self._without_history("numpy()").view()

    def _without_history(self, what: str) -> np.ndarray:
        if is_annotated(self.value):
            raise UserError(
                f"{source.quoted()}  {what} of a tensor that requires a gradient, which would end there; use x.detach().numpy()"
            )
        return self._elements(what)

    def item(self) -> Any:
        """The only element, as a Python number.  Raises UserError for more or fewer."""
        if self.numel() != 1:
            raise source.located(UserError(f"item() needs one element; this tensor has shape {list(self.shape)}"))
        return self._elements("item()").reshape(()).item() if self.dtype.name != "bf16" else float(self.numpy().reshape(()))

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self._elements("tolist()").tolist()

    def equal(self, other: Tensor) -> bool:
        """Whether shapes and all elements are equal."""
        return self.shape == other.shape and bool((self == other).all())

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False) -> bool:
        """|x - y| <= atol + rtol |y| everywhere (numpy's rule)."""
        arrays = [t._elements("allclose()").astype(np.float64) for t in (self, other)]
        return bool(np.allclose(*arrays, rtol=rtol, atol=atol, equal_nan=equal_nan))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self._without_history("conversion to a numpy array").view()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"cannot convert {array.dtype} to {dtype} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._without_history("__dlpack__()").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bool__(self) -> bool:
        return bool(self._number("bool()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __index__(self) -> int:
        if self.dtype.is_float:
            raise TypeError(f"only integer tensors of one element are indices, not {self.dtype.name}{list(self.shape)}")
        return int(self._number("use as a Python index"))

    def _number(self, what: str) -> Any:
        if self.numel() != 1:
            raise UserError(
                f"{source.quoted()}  {what} of a tensor of shape {list(self.shape)} is ambiguous: "
                f"it has {self.numel()} elements; use x.any() or x.all(), or an element"
            )
        return self._elements(what).reshape(())[()]

    # -------------------------------------------------------------------------------------------- protocol

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[k] for k in range(self.shape[0])])

    def __contains__(self, x: Any) -> bool:
        return bool((self == x).any())

    def __repr__(self) -> str:
        from assay.frontends.printing import show_tensor

        return show_tensor(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise source.located(
                BackwardError("deepcopy of a result of recorded operators: its history cannot be copied; use detach().clone()")
            )
        if id(self) not in memo:
            made = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
            if self.grad is not None:
                made.grad = self.grad.__deepcopy__(memo)
        return memo[id(self)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (np.ascontiguousarray(self._elements("pickling")), self.requires_grad)

    def __getitem__(self, index: Any) -> Tensor:
        from assay.frontends.indexing import getitem

        return getitem(self, index)

    def __setitem__(self, index: Any, new: Any) -> None:
        from assay.frontends.indexing import setitem

        setitem(self, index, new)

    def __getattr__(self, name: str) -> Any:
        """A method from the operator table; it is kept on the class, so that the table is asked once a name."""
        if name.startswith("__"):
            raise AttributeError(name)
        from assay.frontends.methods import method_of

        method = method_of(name)
        setattr(Tensor, name, method)
        return method.__get__(self)

    def __dir__(self) -> list[str]:
        from assay.frontends.methods import names

        return sorted({*object.__dir__(self), *names()})


TENSOR_TYPES.append(Tensor)

_numbers = itertools.count()  # of hooks


class Hooked:
    """A registered hook; remove() takes it off."""

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._number = next(_numbers)
        hooks[self._number] = hook

    def remove(self) -> None:
        """The hook is not called any more."""
        self._hooks.pop(self._number, None)


def fresh(value: Value) -> Tensor:
    """A handle on new storage that holds `value`."""
    return Tensor(new_cell(value))


def _unpickled(array: np.ndarray, requires_grad: bool) -> Tensor:  # noqa: FBT001
    """What pickle makes: a leaf, without the gradient that it had."""
    return Tensor(Cell(array)).requires_grad_(requires_grad)


def wrap(array: np.ndarray) -> Tensor:
    """A handle on an array, which is its storage."""
    return Tensor(Cell(array))
