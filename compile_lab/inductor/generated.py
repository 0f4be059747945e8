"""Which kernels did Inductor write, from which lines? ``generated_code(fn, *args)`` answers, forward and backward.

The records come from ``compile_lab.inductor.lowering``, which listens to Inductor; here a function is compiled for
them, where its inputs are or on a virtual chip (``compile_lab.virtual_gpu``). Nothing here measures time.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch.utils import _pytree as pytree

from .._torch.dispatcher import dispatch_mode_is_active
from .._torch.dynamo import compiled_anew
from .._torch.inductor import inductor_config
from ..capture import BreakReported, compilation
from ..doors import PrintedRepr, door
from ..dynamo.tracing import GraphBreak, merged_breaks
from ..recordings import Provenance, here
from ..tensors import leaves, tensors
from .lowering import collecting
from .records import EXTERN, Boundary, Group, InductorGraph, Kernel, Origin, Refusal

if TYPE_CHECKING:
    from .. import virtual_gpu

__all__ = [
    "EXTERN",
    "Boundary",
    "GeneratedCode",
    "Group",
    "InductorGraph",
    "Kernel",
    "Origin",
    "Refusal",
    "collecting",
    "generated_code",
]


COMMAND = "compile_lab.inductor.generated_code"


@dataclass(frozen=True, repr=False)
class GeneratedCode(PrintedRepr):
    """Everything Inductor wrote for a function and its inputs. ``chip`` is None for the device of the inputs."""

    graphs: tuple[InductorGraph, ...]
    chip: str | None
    provenance: Provenance
    breaks: tuple[GraphBreak, ...] = ()
    trouble: tuple[str, ...] = ()
    """What went wrong after the first graph was lowered: the kernels are then those of a part of the function."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All launches, graph after graph, in the order in which each wrapper makes them."""
        return tuple(kernel for graph in self.graphs for kernel in graph.kernels)

    @property
    def written(self) -> tuple[Kernel, ...]:
        """The kernels that Inductor wrote, each source once."""
        return tuple({kernel.source: kernel for kernel in self.kernels if kernel.language != EXTERN}.values())

    @property
    def wrapper(self) -> str:
        """The Python that allocates buffers and launches the kernels, all graphs one after the other."""
        return "\n\n".join(graph.wrapper for graph in self.graphs)

    def __str__(self) -> str:
        head = f"{len(self.graphs)} graphs, {len(self.kernels)} kernels ({self.provenance})"
        lines = [
            head,
            *map(str, self.kernels),
            *map(str, self.breaks),
            *(f"trouble: {error}" for error in self.trouble),
        ]
        return "\n".join(lines)


@door
def generated_code(
    fn: Callable[..., Any],
    *args: Any,
    chip: str | None = None,
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> GeneratedCode:
    """The kernels that Inductor writes for ``fn(*args, **kwargs)``, tied to graph nodes and source lines.

    ``fn`` is any function or module; ``options`` go to ``torch.compile``. Without ``chip`` the code is compiled and
    run where the inputs are: C++ for a CPU, Triton for a GPU. With ``chip`` ("H200", "H100", "A100", "T4") it is
    generated for that chip in a child process, and never run.

    The backward pass is generated too if anything in the result requires grad: all its floating-point tensors that
    do are summed into one scalar, and that is differentiated with respect to every leaf it came from. No ``.grad``
    is touched. Under ``torch.no_grad()`` there is inference code only.

    Raises TypeError if ``fn`` cannot be called or an option is not Inductor's, RuntimeError if graphs were lowered
    but a dispatch mode kept them from running, and whatever ``fn`` or the compiler raises before the first graph is
    lowered; what is raised later is listed in ``trouble``.

    >>> import torch
    >>> from compile_lab.inductor import generated_code
    >>> code = generated_code(torch.nn.Linear(4, 4, bias=False), torch.ones(2, 4))
    >>> [(kernel.direction, kernel.name) for kernel in code.kernels]
    [('forward', 'extern_kernels.mm'), ('backward', 'extern_kernels.mm')]
    """
    _check_options(options)
    grad = torch.is_grad_enabled()
    if chip is None:
        graphs, breaks, trouble = _generate(fn, args, kwargs, options, grad, runs=True)
        provenance = here(COMMAND, device=_device_of(fn, args, kwargs))
        return GeneratedCode(graphs, chip, provenance, breaks, trouble)
    from .. import virtual_gpu  # starts a child process; most callers need none

    return _for_chip(chip, virtual_gpu.run(chip, _generate, fn, args, kwargs, options, grad))


def begin_generated(chip: str, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "virtual_gpu.Begun":
    """``generated_code(fn, *args, chip=chip, **kwargs)``, not waited for."""
    from .. import virtual_gpu

    begun = virtual_gpu.begin(chip, _generate, fn, args, kwargs, None, torch.is_grad_enabled())
    return replace(begun, read=functools.partial(_for_chip, chip))


def _for_chip(chip: str, made: tuple[Any, ...]) -> GeneratedCode:
    graphs, breaks, trouble = made
    there = replace(here(COMMAND, device="cpu"), device=f"NVIDIA {chip}", kind="virtual")
    return GeneratedCode(graphs, chip, there, breaks, trouble)


def _generate(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: dict[str, Any] | None,
    grad: bool,
    runs: bool = False,
) -> tuple[tuple[InductorGraph, ...], tuple[GraphBreak, ...], tuple[str, ...]]:
    """Compile forward and backward; `runs` says that the kernels are built, and so must have been entered."""
    trouble: list[str] = []
    with compiled_anew(), compilation(use_caches=True) as log, collecting() as graphs, torch.set_grad_enabled(grad):
        compiled = torch.compile(fn, options={"fx_graph_cache": False, **(options or {})})
        try:
            _differentiate(compiled(*args, **kwargs))
        except Exception as error:
            if not graphs:
                raise
            trouble.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
    if runs and (graphs or dispatch_mode_is_active()) and not trouble:
        log.require_compiled()
    return tuple(graphs), merged_breaks(log.of(BreakReported)), tuple(trouble)


def _differentiate(result: Any) -> None:
    """Run the backward of a result, for its own sake: into no ``.grad``."""
    outputs = [tensor for tensor in tensors(result) if tensor.requires_grad and tensor.is_floating_point()]
    if reached := leaves(outputs):
        torch.autograd.grad([output.sum() for output in outputs], reached, allow_unused=True)


def _check_options(options: dict[str, Any] | None) -> None:
    known = inductor_config.get_config_copy()
    if unknown := [name for name in options or {} if name.replace("-", "_") not in known]:
        raise TypeError(f"{unknown[0]!r} is no option of Inductor; torch._inductor.list_options() lists them")


def _device_of(*inputs: Any) -> Literal["cpu"] | None:
    """ "cpu" if no tensor among the inputs is on a GPU."""
    modules = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.nn.Module)]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return None if any(tensor.is_cuda for tensor in (*tensors(inputs), *parameters)) else "cpu"
