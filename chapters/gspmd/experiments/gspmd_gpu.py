"""The recording ``gspmd_gpu``: a block in tensor parallel, compiled by XLA's pipeline for GPUs and by the one for CPUs.

jax is used in processes of their own: it takes a GPU's memory, and a platform is chosen once. A process that fails is
told as ``stopped``; the rest of the recording stands.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from compile_lab.simulator.collectives import Collective

from ...registry import Progress
from ..gspmd import AXIS, FREE, compiled_for, jax_here, partitioned, put_inputs, read
from ..gspmd_block import LAYOUTS, block_program, fused, loss, mlp
from ..gspmd_side_by_side import jax_example
from ..gspmd_three_ways import hand_written

DEVICES = 2
SIZES = {"64 wide": (8, 64, 64, 4), "768 wide": (8, 1024, 768, 12)}
"""Batch, length, width and heads of the block: the chapter's, and GPT-2's, for GPUs alone."""
ONE_PASS_OFF = "--xla_disable_hlo_passes=all-reduce-reassociate"
PIPELINES = {"CPU": ("cpu", ""), "GPU": ("cuda", ""), "GPU, sums not joined": ("cuda", ONE_PASS_OFF)}
"""For each: jax's platform, and XLA's flags. In the last the pass is off that adds partial results before it sums."""
STREAM_ALONE = "tp+sp, the stream alone"
WRITTEN = ("q, k, v apart", "q, k, v in one matmul", "by hand", "by hand, without pcast")
PRINTED = ("programs", "layouts", "dtypes")
"""What a process prints of its pipeline, a line for each program."""
RUNS, TIMEOUT_S = {"cuda": 30, "cpu": 3}, 240.0


def record(device: str, progress: Progress = iter) -> dict[str, Any]:
    """What each pipeline sends for a step of the block on two devices, as plain JSON values; four minutes.

    ``{"devices", "sizes": {size: [batch, length, width, heads]}, "flags": {pipeline: XLA's flags}, "programs":
    [{"pipeline", "size", "written", "jax", "collectives": [{"kind", "count", "payload_nbytes", "sent_nbytes"}],
    "lines": the HLO's own, "compile_s", "error", "times_ms"}], "layouts": [{"pipeline", "size", "layout",
    "collectives"}], "dtypes": [{"pipeline", "dtype", "collectives"}], "stopped": {pipeline: why}}``. ``error``:
    |found − exact| / |exact| of all gradients together, against one device's. On a CPU the first pipeline alone.
    """
    found: dict[str, list[dict[str, Any]]] = {each: [] for each in PRINTED}
    stopped: dict[str, str] = {}
    pipelines = PIPELINES if device == "cuda" else {"CPU": PIPELINES["CPU"]}
    for name, (platform, flags) in progress(list(pipelines.items())):
        lines, why = _in_a_child(platform, flags)
        for each in lines:
            found[each.pop("of")].append({"pipeline": name} | each)
        stopped |= {name: why} if why else {}
    flags = {name: flags for name, (_, flags) in pipelines.items()}
    return {"devices": DEVICES, "sizes": SIZES, "flags": flags} | found | {"stopped": stopped}


def _in_a_child(platform: str, flags: str) -> tuple[list[dict[str, Any]], str]:
    """The programs that a child process tells, a line each, and why it ended early."""
    given = " ".join(each for each in (os.environ.get("XLA_FLAGS", ""), flags) if each)
    own = {"COMPILE_LAB_XLA": platform, "XLA_FLAGS": given, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", __name__]
    try:
        ended = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=TIMEOUT_S)
        said, complaint = ended.stdout, ended.stderr if ended.returncode else ""
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""  # bytes, whatever was asked for
        said, complaint = told.decode() if isinstance(told, bytes) else told, f"no end after {TIMEOUT_S:g} s"
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return found, complaint.strip().splitlines()[-1][:300] if complaint.strip() else ""


def _programs(platform: str) -> Iterator[dict[str, Any]]:
    jax = jax_here(DEVICES)
    layout = LAYOUTS["tp"]
    for size, (batch, length, width, heads) in list(SIZES.items())[: None if platform == "cuda" else 1]:
        weights, x = jax_example(batch, length, width)
        joined, to_join = fused(weights, heads), fused(layout.weights)

        def gradients(own: Any, stream: Any, heads: int = heads) -> Any:
            return jax.grad(lambda w: loss(w, stream, heads))(own)

        exact = jax.jit(gradients)(weights, x)
        ways: dict[str, tuple[Callable[..., Any], Any, Any, Any]] = {
            WRITTEN[0]: (gradients, weights, layout.weights, exact),
            WRITTEN[1]: (gradients, joined, to_join, fused(exact, heads)),
            WRITTEN[2]: (hand_written(DEVICES, heads), weights, layout.weights, exact),
            WRITTEN[3]: (hand_written(DEVICES, heads, forks=False), weights, layout.weights, exact),
        }
        for written, (fn, given, places, wanted) in ways.items():
            about = {"of": "programs", "size": size, "written": written, "jax": jax.__version__}
            yield about | _compiled(fn, (given, x), (places, "R"), places, wanted, RUNS[platform])


def _answers() -> Iterator[dict[str, Any]]:
    """What is compiled and not run: the layouts, and a sum in two formats."""
    for size, (batch, length, width, heads) in SIZES.items():
        weights, x = jax_example(batch, length, width)
        for name, layout in {**LAYOUTS, STREAM_ALONE: replace(LAYOUTS["tp+sp"], wide=FREE)}.items():
            program = block_program(layout, weights, x, devices=DEVICES, heads=heads)
            yield {"of": "layouts", "size": size, "layout": name, "collectives": _plain(program.collectives)}
    jnp = jax_here().numpy
    for dtype in ("float32", "bfloat16"):
        args = [jnp.ones(size, dtype) for size in ((64, 128), (512, 128), (128, 512))]
        program = partitioned(mlp, args, ("R", "S(0)", "S(1)"), mesh=DEVICES)
        yield {"of": "dtypes", "dtype": dtype, "collectives": _plain(program.collectives)}


def _plain(collectives: Sequence[Collective]) -> list[dict[str, Any]]:
    keys = ("kind", "count", "payload_nbytes", "sent_nbytes")
    return [{key: getattr(each, key) for key in keys} for each in collectives]


def _compiled(
    fn: Callable[..., Any], args: tuple[Any, ...], layout: tuple[Any, ...], out: Any, wanted: Any, runs: int
) -> dict[str, Any]:
    """One program: what it sends, how far its gradients are off, and what a run takes."""
    jax, axes = jax_here(DEVICES), {AXIS: DEVICES}
    begun = time.perf_counter()
    lowered, compiled = compiled_for(fn, args, layout, mesh=axes, partitioner="shardy", out=out)
    seconds = time.perf_counter() - begun
    given, times = put_inputs(args, compiled), []
    found = compiled(*given)
    for _ in range(runs):
        start = time.perf_counter()
        jax.block_until_ready(compiled(*given))
        times.append(round((time.perf_counter() - start) * 1e3, 4))
    apart = [jax.device_get(found[name]) - jax.device_get(each) for name, each in wanted.items()]
    error = sum(float((each**2).sum()) for each in apart) / sum(float((each**2).sum()) for each in wanted.values())
    told = {
        "lines": [line.strip()[:400] for line in compiled.as_text().splitlines() if _is_collective(line)],
        "compile_s": round(seconds, 3),
        "error": error**0.5,
        "times_ms": times,
    }
    try:
        program = read(lowered, compiled, args, axes, "shardy", seconds)
    except Exception as error:  # another jax writes its programs in another way; the lines are there
        return told | {"collectives": None, "unread": f"{type(error).__name__}: {error}"[:200]}
    return told | {"collectives": _plain(program.collectives)}


def _is_collective(line: str) -> bool:
    return any(f" {kind}(" in line or f" {kind}-start(" in line for kind in ("all-reduce", "all-gather"))


if __name__ == "__main__":
    for each in itertools.chain(_programs(os.environ["COMPILE_LAB_XLA"]), _answers()):
        print(json.dumps(each), flush=True)
