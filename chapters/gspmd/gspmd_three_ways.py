"""One program, written in three ways, and what each of them refuses.

*Annotated*: some tensors say where they are split, and the compiler decides the rest. *Explicit*: every array's type
says it, and what does not follow is refused. *shard_map*: each device's own program, with every collective in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_lab.doors import check_whole, door

from .gspmd import AXIS, Partitioned, jax_here, mesh_of, partitioned, read
from .gspmd import spec as spec_of
from .gspmd_block import LAYOUTS, attention, linear, norm
from .gspmd_side_by_side import HEADS, jax_example

ANNOTATED, EXPLICIT, SHARD_MAP = "annotated", "explicit", "shard_map"


@dataclass(frozen=True)
class Way:
    """An MLP in tensor parallel, written in one of the three ways: what it sends, and what its text shows.

    ``types`` are those of its values as jax shows them while it traces: in explicit mode they have the split in them.
    """

    name: str
    source: str = field(repr=False)
    program: Partitioned
    types: tuple[str, ...]
    result: Any = field(repr=False, compare=False)


@dataclass(frozen=True)
class JaxRefusal:
    """A program that one of the ways would not take: what it is, the error's name, its first line; and what helps."""

    name: str
    mode: str
    error: str
    message: str
    helps: str = ""


@door
def three_ways() -> tuple[Way, ...]:
    """x [64, 128] → gelu(x up) down, columns of ``up`` and rows of ``down`` split, annotated, explicit, by hand."""
    devices = 4
    jax = jax_here(devices)
    jnp, spec = jax.numpy, jax.sharding.PartitionSpec
    keys = jax.random.split(jax.random.key(0), 3)
    sizes = ((64, 128), (128, 512), (512, 128))
    args = tuple(jax.random.normal(key, size) / size[0] ** 0.5 for key, size in zip(keys, sizes, strict=True))
    placed = spec(), spec(None, AXIS), spec(AXIS, None)
    seen: dict[str, list[str]] = {ANNOTATED: [], EXPLICIT: [], SHARD_MAP: []}

    def annotated(x: Any, up: Any, down: Any) -> Any:
        h = jax.nn.gelu(x @ up)
        seen[ANNOTATED].append(str(jax.typeof(h)))
        return h @ down

    def explicit(x: Any, up: Any, down: Any) -> Any:
        h = jax.nn.gelu(x @ up)
        seen[EXPLICIT].append(str(jax.typeof(h)))
        return jnp.einsum("rw,wd->rd", h, down, out_sharding=spec())

    def own(x: Any, up: Any, down: Any) -> Any:
        h = jax.nn.gelu(x @ up)
        seen[SHARD_MAP].append(str(jax.typeof(h)))
        return jax.lax.psum(h @ down, AXIS)

    sources = {
        ANNOTATED: "jax.jit(lambda x, up, down: gelu(x @ up) @ down,\n    in_shardings=(P(), P(None, 'x'), P('x')))",
        EXPLICIT: "h = gelu(x @ up)              # type: f32[64,512@x]\neinsum('rw,wd->rd', h, down, out_sharding=P())",
        SHARD_MAP: "h = gelu(x @ up)              # this device's columns\npsum(h @ down, 'x')",
    }
    programs = {ANNOTATED: partitioned(annotated, args, placed, mesh={AXIS: devices})}
    mesh = mesh_of({AXIS: devices}, explicit=True)
    with jax.set_mesh(mesh):
        given = tuple(jax.device_put(a, jax.sharding.NamedSharding(mesh, p)) for a, p in zip(args, placed, strict=True))
        programs[EXPLICIT] = _read(jax.jit(explicit), given, devices)
    programs[SHARD_MAP] = partitioned(
        jax.shard_map(own, mesh=mesh_of({AXIS: devices}), in_specs=placed, out_specs=spec()),
        args, placed, mesh={AXIS: devices},
    )  # fmt: skip
    return tuple(
        Way(name, sources[name], each, tuple(dict.fromkeys(seen[name])), jax.device_get(each.run(*args)))
        for name, each in programs.items()
    )


def _read(jitted: Any, given: tuple[Any, ...], devices: int) -> Partitioned:
    lowered = jitted.lower(*given)
    return read(lowered, lowered.compile(), given, {AXIS: devices}, "shardy", 0.0)


@door
def by_hand(
    devices: int = 4, weights: Mapping[str, Any] | None = None, x: Any = None, forks: bool = True
) -> Partitioned:
    """The whole block in tensor parallel as Megatron has it (Shoeybi et al., 2019), forward and backward, by shard_map.

    Each half of the block adds up once forward and, where its input forks to q, k and v, once backward: jax makes that
    second sum itself, where a value that is the same on all devices becomes part of what differs: at a ``pcast`` before
    the fork, or without ``forks`` at each matmul that reads it. A function of (weights, x) that gives the gradients.
    Raises ValueError for devices that do not divide the heads.
    """
    if weights is None or x is None:
        weights, x = jax_example()
    places = LAYOUTS["tp"].weights
    written = hand_written(devices, forks=forks)
    return partitioned(written, (weights, x), (places, "R"), mesh={AXIS: devices}, out=places)


def hand_written(devices: int, heads: int = HEADS, forks: bool = True) -> Callable[..., Any]:
    """The function that `by_hand` compiles, of a block with so many heads. Raises as `by_hand`."""
    check_whole("devices", devices, 2, 8)
    if heads % devices:
        raise ValueError(f"devices={devices} do not divide the block's {heads} heads; take 2 or 4")
    jax = jax_here(devices)
    mesh = mesh_of({AXIS: devices})
    split = {name: spec_of(word, {AXIS: devices}) for name, word in LAYOUTS["tp"].weights.items()}
    whole = spec_of("R", {AXIS: devices})

    def varying(value: Any) -> Any:
        older = not hasattr(jax.lax, "pcast")  # jax 0.7, which Colab has, has half of it under another name
        return jax.lax.pvary(value, AXIS) if older else jax.lax.pcast(value, AXIS, to="varying")

    def forked(value: Any) -> Any:
        return varying(value) if forks else value  # its transpose is the backward's sum

    def half(own: Mapping[str, Any], name: str, part: Any) -> Any:
        return jax.lax.psum(part, AXIS) + own[f"{name}.bias"]

    def own_loss(own: Mapping[str, Any], stream: Any) -> Any:
        zero = {f"{name}.bias": 0.0 for name in ("out", "down")}  # added once, after the sum
        mixed = attention({**own, **zero}, forked(norm(own, "norm1", stream)), heads // devices)
        stream = stream + half(own, "out", mixed)
        h = jax.nn.gelu(linear(own, "up", forked(norm(own, "norm2", stream))))
        stream = stream + half(own, "down", linear({**own, **zero}, "down", h))
        return (stream**2).mean()

    return jax.grad(jax.shard_map(own_loss, mesh=mesh, in_specs=(split, whole), out_specs=whole))


@door
def refusals() -> tuple[JaxRefusal, ...]:
    """Programs that each way refuses, as it says it. An older jax takes some of them: then ``error`` says so."""
    jax, devices = jax_here(), 4
    jnp, spec = jax.numpy, jax.sharding.PartitionSpec
    mesh, auto = mesh_of({AXIS: devices}, explicit=True), mesh_of({AXIS: devices})
    found = []

    def refused(name: str, mode: str, program: Callable[[], Any], helps: str) -> None:
        try:
            program()
        except Exception as error:  # whatever it is, its name is what is asked for
            message = str(error).strip().partition("\n")[0]
            found.append(JaxRefusal(name, mode, type(error).__name__, message, helps))
        else:
            found.append(JaxRefusal(name, mode, f"none: jax {jax.__version__} takes it", "", helps))

    with jax.set_mesh(mesh):
        put = lambda *dims: jax.device_put(jnp.ones((8, 8)), jax.sharding.NamedSharding(mesh, spec(*dims)))  # noqa: E731
        rows, columns = put(AXIS, None), put(None, AXIS)
        helps = "out_sharding= says what becomes of the sum", "jax.sharding.reshard one of them first"
        refused("a sum over the split dimension: columns @ rows", EXPLICIT, lambda: columns @ rows, helps[0])
        refused("rows + columns", EXPLICIT, lambda: rows + columns, helps[1])
        refused("sort along the split", EXPLICIT, lambda: jnp.sort(columns, 1), "reshard, or sort another dimension")
        refused("cumsum along the split", EXPLICIT, lambda: jnp.cumsum(columns, 1), "reshard first")
        refused("reshape of split columns to one dimension", EXPLICIT, lambda: columns.reshape(64), "reshard first")
    one, whole = spec(AXIS), spec()
    total = jax.shard_map(lambda x: x.sum(0, keepdims=True), mesh=auto, in_specs=one, out_specs=whole)
    refused("a sum without its psum", SHARD_MAP, lambda: total(jnp.ones((8, 8))), "jax.lax.psum(…, 'x')")
    where = jax.sharding.NamedSharding(auto, one)
    refused(
        f"{devices + 1} rows on {devices} devices", ANNOTATED,
        lambda: jax.jit(lambda x: x * 2, in_shardings=where)(jnp.ones((devices + 1, 8))), "pad the rows",
    )  # fmt: skip
    return tuple(found)
