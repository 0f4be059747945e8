"""How an annotation spreads: what each value of a program was decided to be, and from which neighbour it has it.

Shardy is asked twice. The decision is read from XLA's own dump, taken between propagation and partitioning; GSPMD's is
too. The steps come from running Shardy's pass once more on jax's program, with its own record of them turned on; where
that run decides otherwise than XLA did, `Propagated.differs` says so.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compile_lab.doors import door

from .gspmd import FREE, compiled_for, read

_PASS = "shardy-xla|sharding-propagation"
_REPLAY = "builtin.module(sdy-user-priority-propagate{debug-propagation-edge-sharding=true})"
_LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (\w+)\[([\d,]*)\]\S* ([a-z\-]+)\(([^)]*)\)(.*)$")
_EDGE = re.compile(r"step-(\d+) = \[\{[^=]*= ([\w-]+) -> \[([^\]]*)\]")


@dataclass(frozen=True)
class Value:
    """One value of a program: an argument (``operator`` is ``parameter``), or what an operation makes.

    ``scope`` is the part of the function it belongs to (`jax.named_scope`), or the argument's name. ``word`` is where
    it is split, ``undecided`` if nobody said.
    """

    name: str
    scope: str
    operator: str
    shape: tuple[int, ...]
    word: str


@dataclass(frozen=True)
class SplitStep:
    """One step of Shardy's: at an operation, a split went from one of its values to others.

    ``source`` and ``targets`` are scopes, ``word`` is what the first target now is. ``backwards``: from a result, or
    from one operand to another.
    """

    number: int
    operator: str
    scope: str
    source: str
    targets: tuple[str, ...]
    word: str
    backwards: bool
    reached: Mapping[str, str] = field(repr=False, default_factory=dict)
    """Arguments, and scopes whose last value this step has split, with how."""


@dataclass(frozen=True)
class Propagated:
    """What a partitioner decided for every value, and Shardy's steps (GSPMD keeps no record: none).

    ``given`` are the arguments that were annotated. ``differs`` names the scopes that the steps leave otherwise than
    XLA decided.
    """

    values: tuple[Value, ...] = field(repr=False)
    steps: tuple[SplitStep, ...] = field(repr=False)
    given: Mapping[str, str]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    payload_nbytes: int
    partitioner: str
    differs: tuple[str, ...] = ()

    def scopes(self) -> dict[str, str]:
        """For each scope, in the program's order, the placement of the last value in it; arguments by name."""
        return {each.scope: each.word for each in self.values if each.scope}

    def after(self, number: int) -> dict[str, str]:
        """Scopes that have a placement once so many steps are done, annotated arguments included."""
        known = dict(self.given)
        for step in self.steps[:number]:
            known |= step.reached
        return known


@door
def decided(
    fn: Callable[..., Any],
    args: Sequence[Any],
    layout: Sequence[Any],
    *,
    partitioner: str = "shardy",
) -> Propagated:
    """What the partitioner decides for each value of ``fn(*args)`` from the annotations of ``layout``.

    The mesh has one axis of four devices. Raises as `partitioned`.
    """
    axes = {"x": 4}
    with tempfile.TemporaryDirectory(prefix="gspmd-") as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": _PASS}
        lowered, compiled = compiled_for(
            fn, args, layout, mesh=axes, partitioner=partitioner, out=FREE, options=options
        )
        (dump,) = Path(folder).glob("*.before_spmd-partitioning.txt")
        values = _values(dump.read_text())
    program = read(lowered, compiled, args, axes, partitioner, 0.0)
    given = {each.scope: each.word for each in _annotated(lowered) if each.word != FREE}
    steps, final = _replayed(lowered) if partitioner == "shardy" else ((), {})
    wanted = {each.scope: each.word for each in values if each.scope}
    differs = tuple(scope for scope, word in final.items() if wanted.get(scope, word) != word)
    return Propagated(
        values, steps, given, program.inputs, program.outputs, program.payload_nbytes, partitioner, differs
    )  # fmt: skip


def _values(hlo: str) -> tuple[Value, ...]:
    """The entry computation's values, from a dump after propagation."""
    found = []
    for line in hlo[hlo.index("ENTRY ") :].splitlines():
        if each := _LINE.match(line):
            name, _, dims, operator, _, rest = each.groups()
            source = re.search(r'op_name="([^"]*)"', rest)
            sharding = re.search(r"sharding=\{([^}]*)\}", rest)
            scope = _scope(source[1].replace("\\'", "'") if source else "", operator == "parameter")
            shape = tuple(int(n) for n in dims.split(",") if n)
            found.append(Value(name, scope, operator, shape, _hlo_word(sharding[1] if sharding else "")))
    return tuple(found)


def _scope(source: str, argument: bool) -> str:
    """``jit(block)/q/dot_general`` → ``q``; an argument ``weights['q.weight']`` → ``q.weight``."""
    if argument:
        inside = re.search(r"\[['\"]([^'\"]+)['\"]\]", source)
        return inside[1] if inside else source
    parts = source.split("/")[1:-1]
    return parts[0] if parts else ""


def _hlo_word(sharding: str) -> str:
    """``devices=[1,4]<=[4]`` → ``S(1)``. What has no sharding was decided by nobody, and is computed whole."""
    if not sharding:
        return "R"
    tiles = re.search(r"devices=\[([\d,]+)\]", sharding)
    if not tiles or "maximal" in sharding:
        return "R"
    split = [dim for dim, parts in enumerate(tiles[1].split(",")) if parts != "1"]
    if "last_tile_dim_replicate" in sharding:
        split = [dim for dim in split if dim < tiles[1].count(",")]
    return f"S({split[0]})" if split else "R"


def _sdy_word(sharding: str) -> str:
    """``<@mesh, [{?}, {"x", ?}]>`` → ``S(1)``."""
    dims = re.search(r"\[(\{.*?\})\]>", sharding)
    split = [at for at, dim in enumerate(re.findall(r"\{([^}]*)\}", dims[1])) if '"' in dim] if dims else []
    return f"S({split[0]})" if split else "R"


def _annotated(lowered: Any) -> list[Value]:
    """The function's arguments as they were annotated."""
    main = _main(lowered.compiler_ir("stablehlo"))
    names = _argument_names(main)
    found = []
    for index, attributes in enumerate(_attributes(main)):
        told = str(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else ""
        if not told and "mhlo.sharding" in attributes:  # how GSPMD is told
            word = _hlo_word(str(attributes["mhlo.sharding"]).strip('"{}'))
        else:
            word = _sdy_word(told) if told else FREE
        found.append(Value(str(index), names[index], "parameter", (), word))
    return found


def _attributes(main: Any) -> Any:
    """Of each argument of a function; none if nothing is annotated. An MLIR attribute map is no dict."""
    return main.attributes["arg_attrs"] if "arg_attrs" in main.attributes else ()  # noqa: SIM401


def _main(module: Any) -> Any:
    return next(each for each in module.body.operations if str(each.attributes["sym_name"]) == '"main"')


def _argument_names(main: Any) -> list[str]:
    arguments = main.regions[0].blocks[0].arguments
    return [_scope(re.findall(r'loc\("([^"]*)"', str(each.location))[0], True) for each in arguments]


def _replayed(lowered: Any) -> tuple[tuple[SplitStep, ...], dict[str, str]]:
    """Shardy's propagation run once more with a record of its steps, and what it leaves for each scope."""
    from jaxlib.mlir import ir, passmanager

    program = lowered.compiler_ir("stablehlo")
    with program.context:
        module = ir.Module.parse(program.operation.get_asm(enable_debug_info=True))
        passmanager.PassManager.parse(_REPLAY).run(module.operation)
        main = _main(module)
        block = main.regions[0].blocks[0]
        known = {str(each.get_name()): name for each, name in zip(block.arguments, _argument_names(main), strict=True)}
        steps, final, places = [], {}, []
        for operation in block.operations:
            source = re.search(r'loc\("([^"]*)"', str(operation.location))
            scope = _scope(source[1] if source else "", False)
            known |= {str(each.get_name()): scope for each in operation.results}
            sharding = _attribute(operation, "sdy.sharding")
            if operation.results and scope:
                final[scope] = _sdy_word(sharding)
            places.append((operation, scope))
        last = {scope: str(each.results[0].get_name()) for each, scope in places if scope and len(each.results)}
        ends = {str(each.get_name()) for each in block.arguments} | set(last.values())
        for operation, scope in places:
            for number, away, to in _EDGE.findall(_attribute(operation, "sdy.propagation_edges")):
                steps.append(_step(operation, scope, int(number), away, to.split(", "), known, ends))
    return tuple(sorted(steps, key=lambda step: step.number)), final


def _attribute(operation: Any, name: str) -> str:
    return str(operation.attributes[name]) if name in operation.attributes else ""


def _step(
    operation: Any,
    scope: str,
    number: int,
    away: str,
    to: Sequence[str],
    known: Mapping[str, str],
    ends: set[str],
) -> SplitStep:
    def value(place: str) -> Any:
        side, _, index = place.partition("-")
        return (operation.operands if side == "operand" else operation.results)[int(index)]

    names = tuple(known[str(value(each).get_name())] for each in to)
    word = _sdy_word(_sharding_of(value(to[0])))
    found = [value(each) for each in to]
    named = {str(each.get_name()): _sdy_word(_sharding_of(each)) for each in found}
    reached = {known[name]: each for name, each in named.items() if name in ends and known[name]}
    backwards = away.startswith("result") or all(each.startswith("operand") for each in to)
    return SplitStep(number, operation.name, scope, known[str(value(away).get_name())], names, word, backwards, reached)


def _sharding_of(value: Any) -> str:
    """What the pass left on a value: on the operation that makes it, or, of an argument, on the function."""
    owner = value.owner
    if hasattr(owner, "attributes"):
        return _attribute(owner, "sdy.sharding")
    number = list(owner.arguments).index(value)  # jax 0.7's values do not know theirs
    attributes = owner.owner.attributes["arg_attrs"][number]
    return str(attributes["sdy.sharding"]) if "sdy.sharding" in attributes else ""
