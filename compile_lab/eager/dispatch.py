"""What does the dispatcher do with eager code? ``log(fn, *args)``: each call, with every kernel it passes, nested.

A tensor carries a set of dispatch keys. A call enters at the kernel registered for the highest of them, which does its
part and hands the call to the next: a *hop* (`compile_lab.eager.intercept`). What is reported did happen, in that
order. What a kernel does without the dispatcher (a direct C++ call, a launch on a GPU) has no hop and is not seen.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from .._torch.dispatcher import DisableTorchFunction, current_autograd_node, dispatch_mode_is_active
from ..doors import PrintedRepr, door
from ..source import Line, users_line
from ..tensors import gradients_kept, tensors
from . import intercept as hops
from .intercept import DEVICE_KEYS, Hop, noted_kernels
from .operators import kind_of


@dataclass(frozen=True)
class Call:
    """One call of the dispatcher: the operator, and the kernels that the call passed.

    ``parent`` is the index in the log of the call whose kernel made this one (None: Python or the autograd engine did),
    ``depth`` how many such calls enclose it. ``python`` is the function of torch that Python called, ``python_call``
    its number (0: none), ``line`` the user's line that did, ``module`` the path of the innermost module. In the
    backward, where ``node`` names the autograd node, these are those of the forward call that the node belongs to.
    ``nested``: made by a device's kernel. ``outputs``: shapes of what was returned, as ``[8, 64]``.
    """

    op: str
    hops: tuple[Hop, ...] = ()
    parent: int | None = None
    depth: int = 0
    python: str = ""
    python_call: int = 0
    line: Line | None = None
    module: str = ""
    node: str = ""
    nested: bool = False
    outputs: str = ""

    @property
    def name(self) -> str:
        """The operator's name without namespace and overload: ``addmm``."""
        return self.op.partition("::")[2].partition(".")[0]

    @property
    def direction(self) -> str:
        """``backward`` if it was called while an autograd node ran, else ``forward``."""
        return "backward" if self.node else "forward"

    @property
    def below_autograd(self) -> bool:
        """True for what a device is asked for: a call that reaches a device's kernel from above that layer.

        A ``TorchDispatchMode`` sees these operators, and a compiler's graph is made of them.
        """
        at_device = any(hop.is_backend for hop in self.hops)
        return at_device and not self.nested and not any(hop.composite for hop in self.hops)

    @property
    def kind(self) -> str:
        """matmul, pointwise, view, … (`compile_lab.eager.operators.KINDS`)."""
        return kind_of(self.op)

    @property
    def computes(self) -> bool:
        """True for a call below autograd that writes data: no view, no allocation, no reading of a number by Python."""
        return self.below_autograd and self.kind not in ("view", "allocation", "reading")


@dataclass(frozen=True, repr=False)
class DispatchLog(PrintedRepr):
    """Every call of the dispatcher, in the order in which they began."""

    calls: tuple[Call, ...]
    result: Any = field(repr=False, compare=False)

    def of(self, direction: str) -> DispatchLog:
        """The calls of the ``forward`` or of the ``backward`` only. ValueError for another word."""
        if direction not in ("forward", "backward"):
            raise ValueError(f"direction is 'forward' or 'backward', not {direction!r}")
        return self._where(lambda call: call.direction == direction)

    def inside(self, module: str) -> DispatchLog:
        """The calls made in the module of that path (``blocks.0.mlp``) and in its parts, forward and backward.

        Raises ValueError, naming some of the paths there are, where no call was made in it.
        """
        found = self._where(lambda call: call.module == module or call.module.startswith(f"{module}."))
        if not found.calls:
            known = ", ".join(sorted({call.module for call in self.calls if call.module})[:12])
            raise ValueError(f"no call was made in a module {module!r}; calls were made in {known or 'no module'}")
        return found

    def _where(self, keep: Callable[[Call], bool]) -> DispatchLog:
        kept: dict[int, Call] = {}
        new: dict[int, int] = {}
        for old, call in enumerate(self.calls):
            if keep(call):
                parent = None if call.parent is None else new.get(call.parent)
                depth = 0 if parent is None else kept[parent].depth + 1
                new[old] = len(kept)
                kept[len(kept)] = replace(call, parent=parent, depth=depth)
        return DispatchLog(tuple(kept.values()), self.result)

    @property
    def python_calls(self) -> int:
        """Calls of torch's functions and tensor methods, made by Python, that reached the dispatcher."""
        return len({call.python_call for call in self.calls} - {0})

    @property
    def hops(self) -> int:
        """Kernels that all calls passed, together."""
        return sum(len(call.hops) for call in self.calls)

    @property
    def below_autograd(self) -> int:
        """Calls that reached a device's kernel from above (`Call.below_autograd`)."""
        return sum(call.below_autograd for call in self.calls)

    @property
    def computing(self) -> int:
        """Those of them that are neither views nor allocations."""
        return sum(call.computes for call in self.calls)

    def counts(self) -> dict[str, int]:
        """The five numbers that "how many dispatches?" can mean."""
        names = ("python_calls", "dispatches", "hops", "below_autograd", "computing")
        values = (self.python_calls, len(self.calls), self.hops, self.below_autograd, self.computing)
        return dict(zip(names, values, strict=True))

    def __str__(self) -> str:
        lines = [f"{'  ' * call.depth}{call.name}: {' → '.join(hop.key for hop in call.hops)}" for call in self.calls]
        return "\n".join(lines)


@door
def log(fn: Callable[..., Any], *args: Any, backward: bool = False, **kwargs: Any) -> DispatchLog:
    """Call ``fn(*args, **kwargs)`` eagerly and log every call of the dispatcher that it makes.

    ``fn`` is any function or module, and may itself run a backward or an optimizer. With ``backward`` the gradients
    of its outputs are computed too, as by ``.backward()`` with gradients of ones, which are made unseen; afterwards
    each parameter's ``.grad`` is what it was. One or two seconds of preparation, whatever ``fn``. A logged call takes
    many times longer than another, so a time measured in here means nothing.

    Raises TypeError if ``fn`` cannot be called or is given a tensor subclass, ValueError for compiled code, for a
    device that is not cpu or cuda, and for a backward through outputs that require no gradient; RuntimeError
    inside a TorchDispatchMode; and what ``fn`` raises. Compiled code that ``fn`` calls inside runs eagerly.

    >>> import torch
    >>> from compile_lab.eager import log
    >>> print(log(lambda x: x.t().exp(), torch.ones(2, 3)))
    t: AutogradCPU → ADInplaceOrView → CPU
      transpose: CPU
        as_strided: CPU
    exp: AutogradCPU → CPU
    """
    _refuse_compiled(fn)
    devices = _devices(fn, args, kwargs)
    recorder = _Recorder()
    paths = {module: path for path, module in fn.named_modules()} if isinstance(fn, torch.nn.Module) else {}
    with ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_module_paths(recorder, paths))
        stack.enter_context(noted_kernels(recorder.note, devices))
        with recorder.listening(), _PythonCalls(recorder):
            result = fn(*args, **kwargs)
        if backward:
            _run_backward(fn, result, recorder)
    return DispatchLog(recorder.finished(), result)


@dataclass
class _Open:
    """A call that has begun, and what is known of it so far; `call` lacks hops and outputs."""

    index: int
    call: Call
    hops: list[Hop]
    outputs: str = ""


class _Recorder:
    """Takes the notes. Each thread has its own stack of open calls: a GPU's backward runs on a thread of its own."""

    def __init__(self) -> None:
        self.on = False
        self.noted: list[_Open] = []
        self.python: tuple[str, int] = ("", 0)
        self.paths: list[str] = []
        self.forward_of: dict[int, dict[str, Any]] = {}
        self.local = threading.local()

    @contextmanager
    def listening(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def note(self, op: str, hop: Hop, kernel: Callable[[], Any]) -> Any:
        if not self.on:
            return kernel()
        stack: list[_Open] = self.local.__dict__.setdefault("stack", [])
        top = stack[-1] if stack else None
        if top is not None and top.call.op == op and hop.follows(top.hops[-1]):
            top.hops.append(hop)
            return kernel()
        with DisableTorchFunction():
            opened = self._begin(op, hop, top)
        stack.append(opened)
        try:
            out = kernel()
        finally:
            stack.pop()
        with DisableTorchFunction():
            self._end(opened, out)
        return out

    def _begin(self, op: str, hop: Hop, top: _Open | None) -> _Open:
        if top is not None:
            at_device = top.hops[-1].is_backend and not top.hops[-1].composite
            call = replace(top.call, op=op, parent=top.index, depth=top.call.depth + 1)
            call = replace(call, nested=call.nested or at_device)
        elif (node := current_autograd_node()) is not None:
            call = Call(op, node=node.name(), **self.forward_of.get(node._sequence_nr(), {}))
        else:
            module = self.paths[-1] if self.paths else ""
            line = users_line(sys._getframe(1), __file__, hops.__file__)
            call = Call(op, python=self.python[0], python_call=self.python[1], line=line, module=module)
        self.noted.append(_Open(len(self.noted), call, [hop]))
        return self.noted[-1]

    def _end(self, opened: _Open, out: Any) -> None:
        tensors = [one for one in (out if isinstance(out, tuple | list) else [out]) if isinstance(one, torch.Tensor)]
        opened.outputs = ", ".join(str(list(one.shape)) for one in tensors)
        call = opened.call
        if call.node:
            return
        for one in tensors:
            if one.grad_fn is not None:
                known = {"python": call.python, "line": call.line, "module": call.module}
                self.forward_of.setdefault(one.grad_fn._sequence_nr(), known)

    def finished(self) -> tuple[Call, ...]:
        return tuple(replace(one.call, hops=tuple(one.hops), outputs=one.outputs) for one in self.noted)


class _PythonCalls(TorchFunctionMode):
    """Remembers which function of torch Python has called: the outermost, as torch shows a mode no other."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder, self.count = recorder, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        recorder, self.count = self.recorder, self.count + 1
        outer, recorder.python = recorder.python, (_python_name(func), self.count)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            recorder.python = outer


def _python_name(func: Any) -> str:
    """The name under which a reader knows it: ``torch.nn.functional.linear``, ``Tensor.view``."""
    name = resolve_name(func) or getattr(func, "__qualname__", repr(func))
    return name.removeprefix("torch.").removesuffix(".__get__") if name.startswith("torch.Tensor.") else name


@contextmanager
def _module_paths(recorder: _Recorder, paths: dict[torch.nn.Module, str]) -> Iterator[None]:
    """While the block runs, ``recorder.paths`` ends with the path of the module that is running."""
    modules = torch.nn.modules.module

    def enter(module: torch.nn.Module, _: Any) -> None:
        recorder.paths.append(paths.get(module) or (recorder.paths[-1] if recorder.paths else ""))

    def leave(*_: Any) -> None:
        recorder.paths.pop()

    left = modules.register_module_forward_hook(leave, always_call=True)
    with modules.register_module_forward_pre_hook(enter), left:
        yield


def _run_backward(fn: Callable[..., Any], result: Any, recorder: _Recorder) -> None:
    outputs = [one for one in tensors(result) if one.requires_grad]
    if not outputs:
        raise ValueError(
            "backward=True, and no output requires a gradient: give a module whose parameters do, or an input with "
            "requires_grad=True, outside of torch.no_grad()"
        )
    ones = [torch.ones_like(one) for one in outputs]
    with gradients_kept(fn.parameters() if isinstance(fn, torch.nn.Module) else ()), recorder.listening():
        torch.autograd.backward(outputs, ones)


def _refuse_compiled(fn: Any) -> None:
    if dispatch_mode_is_active():
        raise RuntimeError("a TorchDispatchMode is active and would take each call away: call log outside of it")
    modules = list(fn.modules()) if isinstance(fn, torch.nn.Module) else []
    compiled = [one for one in modules if hasattr(one, "_orig_mod") or one._compiled_call_impl is not None]
    if compiled or hasattr(fn, "_torchdynamo_orig_callable"):
        raise ValueError(
            "this is compiled, and the kernels that Inductor wrote do not pass the dispatcher: a log would lack them. "
            "Give log what was given to torch.compile"
        )


def _devices(fn: Any, args: Any, kwargs: Any) -> frozenset[str]:
    given = tensors((args, kwargs))
    if isinstance(fn, torch.nn.Module):
        given += [*fn.parameters(), *fn.buffers()]
    for one in given:
        if type(one) not in (torch.Tensor, torch.nn.Parameter) and not isinstance(one, torch.nn.Buffer):
            raise TypeError(f"a {type(one).__name__} takes its calls away from the dispatcher's kernels: give a Tensor")
    devices = {"cpu"} | {one.device.type for one in given}
    if unknown := sorted(devices - set(DEVICE_KEYS)):
        raise ValueError(
            f"a tensor on {unknown[0]}: log stands in for the kernels of {' and '.join(DEVICE_KEYS)} alone; take the "
            "same shapes on the CPU, where the operators are the same"
        )
    return frozenset(devices)
