"""Inside a child: what a program knows of its own tensors.

A description that travels has no values; a tensor that the program itself makes has, and may be asked for them.
"""

import linecache
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from .._torch.virtual_gpu import virtual_gpu_pieces
from ..source import Line

ELEMENTS = 1 << 16
"""Larger constants are forgotten: their values would be computed for nothing, operator by operator."""

_FILLED = {"zeros_like": 0, "new_zeros": 0, "ones_like": 1, "new_ones": 1}


def knowing_mode() -> Any:
    """A FakeTensorMode that keeps the values of constants, so that ``.item()`` or a branch on them works."""
    pieces: Any = virtual_gpu_pieces()

    class ValueUnknown(pieces.GuardOnDataDependentSymNode):
        """torch asks in many places whether something can be known, and catches its own exception."""

    class Shapes(pieces.ShapeEnv):
        def _make_data_dependent_error(self, expr: Any, unhinted_expr: Any, **_: Any) -> Exception:
            return ValueUnknown(expr, value_unknown())

    class Knowing(pieces.FakeTensorMode):
        def may_turn_const(self, t: Tensor) -> bool:
            # torch's own rule, which keeps single elements: more would be data in a graph that it traces.
            return t.numel() <= ELEMENTS and t.layout == torch.strided and _is_real(t)

        def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            given = pieces.tree_leaves((args, kwargs))
            if any(isinstance(each, torch.SymInt | torch.SymFloat | torch.SymBool) for each in given):
                return super().dispatch(func, types, args, kwargs)
            try:
                made = super().dispatch(func, types, *pieces.tree_map_only(Tensor, self._constant, (args, kwargs)))
            except (pieces.DataDependentOutputException, pieces.DynamicOutputShapeException) as error:
                raise ValueUnknown(None, value_unknown()) from error
            if not isinstance(made, Tensor) or made._has_symbolic_sizes_strides or made.numel() > ELEMENTS:
                return made
            with pieces.no_dispatch():
                if _makes_a_constant(func, given):
                    made = func(*args, **kwargs)
                elif (value := _FILLED.get(_name(func))) is not None:
                    empty = torch.empty_strided(made.size(), made.stride(), dtype=made.dtype, device=made.device)
                    made = empty.fill_(value)
            return self._constant(made)

        def _constant(self, tensor: Any) -> Any:
            if type(tensor) is not Tensor or not self.may_turn_const(tensor):
                return tensor
            return self.fake_tensor_converter.from_real_tensor(self, tensor, make_constant=True)

    return Knowing(allow_non_fake_inputs=True, shape_env=Shapes())


def value_unknown() -> str:
    """What to say of a value that is asked for here and that only a GPU would have computed, and what to do."""
    frame: FrameType | None = sys._getframe(1)
    line: Line | None = None
    while frame and line is None:
        file, number = frame.f_code.co_filename, frame.f_lineno
        if frame.f_globals.get("__name__", "").startswith("cloudpickle"):  # the result is on its way out
            break
        if Line(file, number).is_users and Path(file).parent != Path(__file__).parent:
            line = Line(file, number, text=linecache.getline(file, number).strip())
        frame = frame.f_back
    where = f"{line} asks for" if line else "what the function returns hangs on"
    asked = f": {line.text:.120}" if line and line.text else ""
    return (
        f"{where} a value that only the real GPU would compute{asked}\n"
        "A virtual GPU knows shapes and what a program makes itself, not its inputs' values: decide by torch.where or "
        "by a number from outside, or run the parts before and after that line one by one."
    )


def _is_real(tensor: Tensor) -> bool:
    return type(tensor) is Tensor and tensor.device.type != "meta"


def _name(func: Any) -> str:
    return getattr(func, "_opname", "")


def _makes_a_constant(func: Any, given: list[Any]) -> bool:
    """torch.arange, torch.full, …: what hangs on numbers alone, and neither on a generator nor on old memory."""
    return (
        isinstance(func, virtual_gpu_pieces().OpOverload)
        and torch.Tag.nondeterministic_seeded not in func.tags
        and not any(isinstance(each, Tensor | torch.Generator) for each in given)
        and not _name(func).startswith("empty")
        and len(func._schema.returns) == 1
        and isinstance(func._schema.returns[0].type, torch.TensorType)
    )
