"""Expert parallel of a given model: its routed layers, the rows that its batch sends to each expert, and what a device
then holds and sends.

Experts are found in two forms: as a list of modules of one class and size, or as parameters [experts, …] of which
matmuls take one expert's part, or all at once (batched or grouped). Either has to stand below a module that chooses
among as many: by a topk, a sort or a maximum over a dimension of that size.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from ..devices.collectives import Program, counted, fake_process_group, held_here
from ..simulator.collectives import Collective, Held
from ..tensors import is_fake, nbytes, storage_of, tensors
from .given import GivenModel
from .sharded import forget_gradients, fully_sharded, one_axis, step_of
from .shares import BATCHED, GROUPED, MODULES, ONE_BY_ONE, OnDevices, PatternRefused, RoutedLayer

CHOOSES = ("aten::topk", "aten::argmax", "aten::max.dim", "aten::sort", "aten::sort.stable", "aten::multinomial")
COPIES = ("aten::_to_copy", "aten::clone")
OPERANDS = {"aten::mm": 0, "aten::bmm": 0, "aten::_grouped_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
"""The matmuls by which experts are found, and at which argument their two matrices begin."""
COUNT_NBYTES = 8
"""Of the number of rows that come for an expert, int64, which the devices exchange first."""
FARTHEST = 2
"""How many modules up from the one that holds the experts the choice among them may be made."""
WITHOUT = "`--pattern fsdp` slices a model without experts"
NEVER_FOUND = (
    "No experts were found: no list of modules of one class and size, and no parameter [experts, …] of which matmuls "
    "take each expert's part, below a module that chooses among as many (topk, argmax, sort)"
)


def expert_parallel(given: GivenModel, devices: int) -> OnDevices:
    """Each device holds its part of the experts, and a slice of all other parameters, as FSDP2 has it.

    The rest of the step is counted as it runs; rows are those of the batch, and what they send is computed of them.
    Raises PatternRefused where there are no experts, or the devices do not divide them.
    """
    layers = routed_layers(given)
    _check(layers, devices)
    apart = {name for layer in layers for name in layer.names}
    named = {name: each for name, each in given.model.named_parameters() if name in apart}
    own = sum(map(nbytes, named.values())) // devices
    trained = sum(nbytes(each) for each in named.values() if each.requires_grad) // devices
    with fake_process_group(devices):
        mesh = one_axis(devices, "ep")
        model, wrapped = fully_sharded(given, mesh, apart)
        rest = nn.ParameterList(each for name, each in model.named_parameters() if name not in apart)
        program = Program(step_of(model, given), [rest], mesh)
        sent = counted(program, warm_up=1)
        forget_gradients(model)
        held = held_here(program)
    held = Held(held.parameters + own, held.gradients + trained, held.optimizer + 2 * trained, held.activations)
    return OnDevices("ep", devices, held, sent, wrapped, tuple(_exchanged(layers, devices)), tuple(layers))


def _check(layers: Sequence[RoutedLayer], devices: int) -> None:
    if not layers:
        raise PatternRefused(NEVER_FOUND, WITHOUT)
    for layer in layers:
        if layer.experts % devices:
            fitting = [str(size) for size in range(2, layer.experts + 1) if layer.experts % size == 0]
            raise PatternRefused(
                f"The {layer.experts} experts of `{layer.path}` cannot be divided evenly among {devices} devices",
                f"take {' or '.join(fitting)} devices, or `--pattern fsdp`, which slices each expert",
            )


def _exchanged(layers: Sequence[RoutedLayer], devices: int) -> Iterator[tuple[str, Collective]]:
    sizes = [COUNT_NBYTES * layer.experts for layer in layers if not layer.padded]
    if sizes:
        yield "all_to_all of the numbers of rows", Collective("all_to_all", "ep", devices, len(sizes), sum(sizes))
    payload = sum(2 * sum(layer.rows) * (layer.there_nbytes + layer.back_nbytes) for layer in layers)
    yield "all_to_all of rows, on average", Collective("all_to_all", "ep", devices, 4 * len(layers), payload)


def routed_layers(given: GivenModel) -> list[RoutedLayer]:
    """The routed layers of the model, and the rows of the batch, from one eager forward."""
    watch = _RoutingWatch(given.model)
    with given.fakes, torch.enable_grad(), torch.compiler.set_stance("force_eager"), watch:
        given.model(*given.args, **given.kwargs)
    return list(watch.layers())


class _Stack(NamedTuple):
    """Memory with a parameter [experts, …] in it, or a copy: numbers from one expert to the next, 0 if of one alone."""

    name: str
    experts: int
    numbers: int
    """Of one expert."""
    stride: int
    first: int = 0


class _Rows:
    """What a module list, or a parameter [experts, …], was seen to compute."""

    def __init__(self, experts: int) -> None:
        self.rows, self.way, self.counted = [0] * experts, MODULES, True
        self.there_nbytes = self.back_nbytes = 0

    def add(self, expert: int, rows: int, there_nbytes: int, back_nbytes: int) -> None:
        self.rows[expert] += rows
        self.there_nbytes, self.back_nbytes = there_nbytes, back_nbytes


class _RoutingWatch(TorchDispatchMode):
    """Follows a forward: which modules it is in, what is chosen among how many, which experts take which rows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.inside = model, list[nn.Module]()
        self.hooks: list[RemovableHandle] = []
        self.paths = {module: path for path, module in model.named_modules()}
        self.choices: set[tuple[int, str]] = set()
        self.lists = {path: each for path, each in model.named_modules() if _is_of_equals(each)}
        self.members = {one: (path, at) for path, each in self.lists.items() for at, one in enumerate(each.children())}
        self.seen: dict[str, _Rows] = {}
        self.kept: list[Tensor] = []  # while they are held no other tensor has their memory
        self.stacks = {
            storage_of(each): _Stack(name, len(each), each[0].numel(), each.stride(0))
            for name, each in model.named_parameters()
            if each.ndim == 3 and len(each) > 1
        }

    def __enter__(self) -> "_RoutingWatch":
        for module in self.model.modules():  # not for all at once: torch 2.13 does not forget a global hook with kwargs
            self.hooks.append(module.register_forward_pre_hook(lambda module, args: self.inside.append(module)))
            self.hooks.append(module.register_forward_hook(self._left, with_kwargs=True, always_call=True))
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        for hook in self.hooks:
            hook.remove()

    def _left(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        if self.inside:
            self.inside.pop()
        given, made = tensors((args, kwargs)), tensors(result)
        if module in self.members and given and made and given[0].ndim:
            path, at = self.members[module]
            seen = self.seen.setdefault(path, _Rows(len(self.lists[path])))
            rows = math.prod(given[0].shape[:-1])
            seen.add(at, int(rows), _row_nbytes(given[0]), _row_nbytes(made[0]))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, name = func(*args, **(kwargs or {})), func.name()
        if name in CHOOSES and args[0].ndim:
            where = self.paths.get(self.inside[-1], "") if self.inside else ""
            self.choices.add((int(args[0].shape[-1]), where))
        elif name in OPERANDS:
            self._matmul(name, args, kwargs or {}, result)
        elif name in COPIES and (stack := self._stack(args[0])):
            self._copied(stack, args[0], result)
        return result

    def _stack(self, tensor: Tensor) -> _Stack | None:
        return self.stacks.get(storage_of(tensor)) if tensor.layout == torch.strided else None

    def _copied(self, stack: _Stack, source: Tensor, result: Tensor) -> None:
        """A copy in another dtype or order holds the same experts, or the one of which it is."""
        self.kept.append(result)
        whole = source.ndim == 3 and len(source) == stack.experts
        of_one = stack._replace(stride=0, first=_expert(stack, source))
        self.stacks[storage_of(result)] = stack._replace(stride=result.stride(0)) if whole else of_one

    def _matmul(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        first, second = args[OPERANDS[name] :][:2]
        for weight, other, row, size in ((second, first, -2, -1), (first, second, -1, -2)):
            stack = self._stack(weight)
            if stack is None or weight.numel() != stack.numbers * (stack.experts if weight.ndim == 3 else 1):
                continue
            seen = self.seen.setdefault(stack.name, _Rows(stack.experts))
            rows = int(other.shape[row])
            sizes = [int(each.shape[size]) * each.element_size() for each in (other, result)]
            if weight.ndim == 2:
                seen.way = ONE_BY_ONE
                seen.add(_expert(stack, weight), rows, *sizes)
                return
            ends = args[2] if name == "aten::_grouped_mm" and len(args) > 2 else kwargs.get("offs")
            seen.way = BATCHED if ends is None else GROUPED
            counts, seen.counted = _counts(ends, rows, stack.experts)
            for expert, count in enumerate(counts):
                seen.add(expert, count, *sizes)
            return

    def layers(self) -> Iterator[RoutedLayer]:
        """Those that the choices of the forward belong to, in the order in which they were first used."""
        owners: dict[str, list[str]] = {}
        for name in self.seen:
            owners.setdefault(name if name in self.lists else name.rpartition(".")[0], []).append(name)
        routed = set().union(*(self._of_choice(*choice, owners) for choice in self.choices))
        for path, names in owners.items():
            if path in routed:
                below = [name for name, _ in self.model.named_parameters() if name.startswith(f"{path}.")]
                first, last = self.seen[names[0]], self.seen[names[-1]]
                yield RoutedLayer(
                    path or "the model",
                    first.way,
                    tuple(below if path in self.lists else names),
                    tuple(first.rows),
                    first.there_nbytes,
                    last.back_nbytes,
                    first.counted,
                )

    def _of_choice(self, among: int, where: str, owners: Mapping[str, Sequence[str]]) -> set[str]:
        """The nearest experts to a choice among so many, and not those in one of which it was made."""
        near: dict[str, int] = {}
        for path, names in owners.items():
            owner = _parts(path)[:-1] if path in self.lists else _parts(path)
            common = _common(owner, _parts(where))
            within = path in self.lists and where.startswith(f"{path}.")
            if len(self.seen[names[0]].rows) == among and not within and len(owner) - common <= FARTHEST:
                near[path] = common
        return {path for path, common in near.items() if common == max(near.values())}


def _parts(path: str) -> list[str]:
    return path.split(".") if path else []


def _common(path: Sequence[str], other: Sequence[str]) -> int:
    """How many parts two paths have in common, from the model on."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(path, other, strict=False)))


def _is_of_equals(module: nn.Module) -> bool:
    """A list of two or more modules of one class and size, all with parameters of their own."""
    if not isinstance(module, nn.ModuleList | nn.ModuleDict) or len(module) < 2:
        return False
    kinds = {
        (type(each), tuple((name, one.shape, one.dtype) for name, one in each.named_parameters()))
        for each in module.children()
    }
    return len(kinds) == 1 and bool(next(iter(kinds))[1])


def _expert(stack: _Stack, tensor: Tensor) -> int:
    return stack.first + (int(tensor.storage_offset()) // stack.stride if stack.stride else 0)


def _counts(ends: Tensor | None, rows: int, experts: int) -> tuple[list[int], bool]:
    """The rows of each expert, and whether they are counted. A batched matmul has as many for each; of a grouped one
    ``ends`` has where each expert's end, unless it has no memory: then they are an even share."""
    if ends is None:
        return [rows] * experts, True
    if is_fake(ends):
        return [rows // experts + (expert < rows % experts) for expert in range(experts)], False
    last = [0, *ends.tolist()]
    return [end - begin for begin, end in itertools.pairwise(last)], True


def _row_nbytes(tensor: Tensor) -> int:
    return int(tensor.shape[-1]) * tensor.element_size()
