"""Wrong types and impossible values at compile_lab's doors: each is told by name, early, or is right after all."""

import importlib
import inspect
import math
import os
import pkgutil
import random
import subprocess
from collections import Counter

import pytest
import torch

import compile_lab
from chapters.exercises import check
from chapters.record import result
from compile_lab import doors, recordings
from compile_lab.aot.training import as_graphs, training_graphs
from compile_lab.capture import NotCompiledError
from compile_lab.checkpointing.plan import longest_gap, plans
from compile_lab.checkpointing.strategies import Strategy, budgets, checkpointed, segments_of
from compile_lab.devices import ranks
from compile_lab.devices.collectives import count, held, pretended
from compile_lab.devices.pipeline import runs
from compile_lab.devices.placements import parts, placement, whole
from compile_lab.dynamo.recompiles import replay, watch, would_recompile
from compile_lab.dynamo.tracing import trace
from compile_lab.eager.dispatch import log
from compile_lab.eager.flops import work_of
from compile_lab.eager.saved import eager_saved
from compile_lab.inductor.generated import generated_code
from compile_lab.inductor.reuse import buffer_reuse
from compile_lab.inductor.traffic import generated_traffic
from compile_lab.inference.service import Endpoint, Request, payback, phase_cost, serve
from compile_lab.measure import trace as traces
from compile_lab.memory.eager import eager_lifetimes
from compile_lab.memory.measured import measure_peak, measure_step
from compile_lab.memory.predict import lifetimes
from compile_lab.modes.cost import break_even_calls, measure, mode_options
from compile_lab.page.claims import Part, Split, Verdict
from compile_lab.page.figures import Series, bars, lines
from compile_lab.page.tables import Code, Table
from compile_lab.precision.casts import dtypes
from compile_lab.precision.formats import op_errors, quantisation, quantised, stochastically_rounded
from compile_lab.report.line import follow
from compile_lab.simulator.fit import fit
from compile_lab.simulator.links import Links
from compile_lab.simulator.overlap import difference
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.pipeline import closed_form, simulate, table, timeline_of
from compile_lab.simulator.recommendation import Network, recommend
from compile_lab.simulator.serving import decode_work, least_ms, turning_batch
from compile_lab.simulator.stage import stage
from compile_lab.simulator.wire import Gradient, buckets, ddp_overlap, fsdp_order, measured_wire, step_of
from compile_lab.virtual_gpu.chips import CHIPS, chip
from compile_lab.virtual_gpu.client import interpret
from compile_lab.virtual_gpu.client import run as run_on_virtual
from compile_lab.virtual_gpu.warps import occupancy
from mini_model.model import MINI

SECONDS = (0, -1, math.nan, math.inf, 1e12)


class Odd:
    """Nothing of use."""


NOT_CALLABLE = (
    *(None, True, False, 0, -1, -(10**30), 10**30, 1.0, 0.5, -0.0, float("nan"), float("inf"), -float("inf"), 1 + 2j),
    *("", "nope", "\0", "cuda:7", "meta", "../../etc", b"mini", [], [1], [[1]], ["a", 2], (), {}, {"a": 1}, {1: None}),
    *({1}, range(3), Odd(), torch.ones(2), torch.tensor(3), torch.float32, Network()),
)
WRONG = (*NOT_CALLABLE, len, torch.nn.Linear(2, 2))
A_CALL = {"fn", "function", "build", "model", "step", "forward", "reset", "compiled"}
"""What is called: anything callable is taken, and what it then raises is its own."""


def total(x):
    return (x * 2).sum()


def doors_of_the_lab(folder):
    """Each door with arguments that it takes; one of them at a time is then exchanged for a wrong one."""
    x = torch.ones(3, requires_grad=True)
    work = decode_work(1, 4, 9, 4)
    endpoint = Endpoint(lambda tokens, places: torch.ones(len(tokens), 9), lambda *_: torch.ones(1, 9), 9, 2, 8)
    answered = serve(endpoint, [Request(1, 2, 2)])
    rates = [{"kind": "all_reduce", "nbytes": nbytes, "median_us": 5.0} for nbytes in (10, 99)]
    times = {"forward": 1.0, "input_grad": 1.0, "weight_grad": 1.0, "transfer": 0.0}
    gradient = {"gradients": [Gradient(1.0, 10)], "backward_ms": 5.0, "cap_nbytes": 1.0, "bytes_per_ms": 1.0}
    here = recordings.here("python -m chapters.record", device="cpu")
    series = Series("a", [1.0], [2.0])
    part = Part("it is fast", True, "here", "it ran")
    model = torch.nn.Module()
    model.blocks = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
    return [
        (
            plan,
            {"shape": MINI, "pattern": "fsdp", "devices": 2, "batch": 4, "length": 8, "microbatches": 2}
            | {"precision": "fp32", "optimizer": "AdamW"},
            (),
        ),
        (stage, {"shape": MINI, "pattern": "fsdp", "devices": 2, "batch": 4, "precision": "bf16"}, ()),
        (
            fit,
            {"shape": MINI, "pattern": "fsdp", "devices": 2, "chip": "H100", "batch": 4, "length": 8}
            | {"precision": "bf16", "checkpointing": False, "assumed": None},
            (),
        ),
        (
            recommend,
            {"shape": MINI, "devices": 2, "memory_nbytes": 1e9, "batch": 4, "precision": "bf16"}
            | {"optimizer": "AdamW", "network": Network()},
            (),
        ),
        (Network, {"links": Links(), "flop_per_s": 1e12}, ()),
        (Links, {"nvlink_bytes_per_s": 1e9, "card_bytes_per_s": 1e9, "cards": 4}, ()),
        (simulate, {"schedule": "GPipe", "stages": 2, "microbatches": 2, **times, "between": 0.0, "single": {}}, ()),
        (table, {"schedule": "1F1B", "stages": 2, "microbatches": 2}, ()),
        (timeline_of, {"orders": table("1F1B", 2, 2), **times, "name": "mine"}, ()),
        (closed_form, {"schedule": "1F1B", "stages": 2, "microbatches": 2}, ()),
        (buckets, {"nbytes": [1, 2], "cap_nbytes": 2.0, "first_nbytes": 1.0}, ()),
        (ddp_overlap, gradient | {"latency_ms": 0.0, "forward_ms": 0.0, "optimizer_ms": 0.0}, ()),
        (step_of, {"order": ["AG0", "w0", "MM"], "compute_ms": 1.0, "collective_ms": 1.0}, ()),
        (fsdp_order, {"blocks": 2, "head": 1, "prefetch": True, "reshard": True}, ()),
        (measured_wire, {"rates": rates, "kind": "all_reduce"}, ()),
        (difference, {"left": [], "right": []}, ()),
        (occupancy, {"chip": CHIPS["H200"], "registers": 32, "shared_bytes": 0, "num_warps": 4}, ()),
        (chip, {"name": "H200"}, ()),
        (longest_gap, {"saved": [1], "blocks": 3}, ()),
        (segments_of, {"blocks": 4}, ()),
        (budgets, {"values": [0.5]}, ()),
        (plans, {"model": torch.nn.MSELoss()}, (torch.ones(2, requires_grad=True), torch.ones(2))),
        (checkpointed, {"model": model, "every": 1, "keep": (), "blocks": "blocks"}, ()),
        (Strategy, {"name": "mine", "every": 1, "keep": (), "compiled": False, "budget": 0.5}, ()),
        (decode_work, {"layers": 1, "dim": 4, "vocabulary": 9, "slots": 4, "itemsize": 2, "tied_head": True}, ()),
        (least_ms, {"work": work, "batch": 1, "bytes_per_s": 1e9, "flop_per_s": 1e9}, ()),
        (turning_batch, {"work": work, "bytes_per_s": 1e9, "flop_per_s": 1e9}, ()),
        (serve, {"endpoint": endpoint, "requests": [Request(1, 2, 2)], "until": math.inf}, ()),
        (phase_cost, {"endpoint": endpoint, "phase": "nope", "request": Request(1, 2, 2)}, ()),
        (payback, {"stream": answered, "against": answered, "request": Request(1, 2, 2)}, ()),
        (break_even_calls, {"compile_s": 1.0, "eager_ms": 2.0, "compiled_ms": 1.0}, ()),
        (mode_options, {"mode": "default"}, ()),
        (measure, {"fn": total, "mode": "nope"}, (x,)),
        (Table, {"columns": ["a"], "rows": [[1]], "caption": ""}, ()),
        (Code, {"code": "x = 1"}, ()),
        (Series, {"name": "a", "at": [1.0], "values": [2.0]}, ()),
        (bars, {"series": series, "value_title": "ms", "alt": "a bar"}, ()),
        (lines, {"series": series, "x_title": "n", "y_title": "ms", "alt": "a line"}, ()),
        (Part, {"claim": "it is fast", "holds": True, "condition": "here", "evidence": "it ran"}, ()),
        (Split, {"claim_id": "C01", "claim": "it is fast"}, (part, part)),
        (Verdict, {"claim_id": "C01", "claim": "it is fast", "holds": True, "condition": "here", "evidence": "it"}, ()),
        (recordings.load, {"name": "machine", "device": "nvidia-h200", "root": folder}, ()),
        (recordings.here, {"command": "x", "device": "cpu"}, ()),
        (recordings.save, {"name": "t", "provenance": here, "result": {"a": 1}}, (folder,)),
        (result, {"name": "nope"}, ()),
        (check, {"name": "12.1"}, (1,)),
        (measure_peak, {"step": lambda: torch.ones(3) * 2, "reset": None}, ()),
        (measure_step, {"forward": lambda: (x * 2).sum(), "reset": None}, ()),
        (eager_lifetimes, {"step": lambda: (x * 2).sum(), "model": None, "optimizer": None}, ()),
        (lifetimes, {"graphs": None}, ()),
        (buffer_reuse, {"code": None}, ()),
        (generated_traffic, {"code": None}, ()),
        (work_of, {"step": lambda: x * 2}, ()),
        (runs, {"schedule": "GPipe", "backend": "gloo"}, ()),
        (quantised, {"x": torch.ones(3), "dtype": torch.float8_e4m3fn}, ()),
        (quantisation, {"x": torch.ones(3), "dtype": torch.float8_e4m3fn, "scaled": True}, ()),
        (stochastically_rounded, {"x": torch.ones(3), "generator": None}, ()),
        (op_errors, {"device": "cpu", "n": 8, "dtypes": (torch.bfloat16,)}, ()),
        (count, {"build": lambda: None, "devices": 2, "rank": 0, "warm_up": 0}, ()),
        (held, {"build": lambda: None, "devices": 2, "rank": 0}, ()),
        (pretended, {"devices": 2, "rank": 0}, ()),
        (log, {"fn": total, "backward": False}, (x,)),
        (trace, {"fn": total, "also": (), "fullgraph": False, "dynamic": None}, (x,)),
        (eager_saved, {"fn": total}, (x,)),
        (replay, {"fn": total, "calls": [], "stance": "default"}, ()),
        (watch, {"fn": total}, ()),
        (would_recompile, {"compiled": total}, (x,)),
        (
            training_graphs,
            {"fn": total, "partitioner": "nope", "memory_budget": None, "decompositions": "inductor"},
            (x,),
        ),
        (as_graphs, {"fn": total, "partitioner": "default", "memory_budget": None}, ()),
        (dtypes, {"fn": total}, (x,)),
        (ranks.run, {"fn": total, "n": 0, "timeout": 5.0}, ()),
        (generated_code, {"fn": total, "chip": "nope", "options": None}, (x,)),
        (follow, {"fn": total, "chip": "nope"}, (x,)),
        (run_on_virtual, {"chip": "nope", "function": total, "timeout_s": 5.0}, (x,)),
        (interpret, {"fn": total, "chip": "nope", "timeout_s": 5.0}, (x,)),
        (traces.read, {"trace": {"traceEvents": []}}, ()),
        (placement, {"word": "S(0)"}, ()),
        (parts, {"x": torch.ones(4, 2), "word": "P(max)", "ranks": 2}, ()),
        (whole, {"held": [torch.ones(2)], "word": "S(0)"}, ()),
    ]


def called(door, given, rest):
    """door(…) with the given arguments by name, as far as its signature lets; `rest` follows those by position."""
    given, by_position = dict(given), []
    for name, parameter in inspect.signature(door).parameters.items():
        first = parameter.kind is parameter.POSITIONAL_ONLY or (
            rest and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        if first and name in given:
            by_position.append(given.pop(name))
    return door(*by_position, *rest, **given)


TOLD = (ValueError, TypeError, KeyError, OSError, recordings.RecordingError, NotCompiledError)
CALLED = {"orders": "micro-batch", "order": "collective", "collective_ms": "collective", "forward_ms": "collective"}
CALLED |= {"bytes_per_ms": "communication", "backward_ms": "backward", "gradients": "gradient"}
CALLED |= {"device": "machine", "parts": "part", "values": "budget"}
"""What a message calls an argument, where that is not its name."""


def test_what_no_door_takes_is_told_by_name(tmp_path, monkeypatch, alarm):
    monkeypatch.chdir(tmp_path)
    seed = int(os.environ.get("DOORS_SEED", "0"))
    chance, told, obscure = random.Random(seed), Counter(), []
    cases = [
        (door, good, rest, name, value)
        for door, good, rest in doors_of_the_lab(tmp_path)
        for name in good
        for value in chance.sample(NOT_CALLABLE if name in A_CALL else WRONG, 8)
    ]
    for door, good, rest, name, value in cases:
        case = f"{door.__module__}.{door.__qualname__}({name}={doors.shown(value)})"
        alarm(300)
        try:
            called(door, good | {name: value}, rest)
        except TOLD as error:
            told[type(error).__name__] += 1
            if not any(
                each in str(error).lower() for each in (*good, CALLED.get(name, name), str(value), doors.shown(value))
            ):
                obscure.append(f"{case} does not name it: {error}")
        except Exception as error:
            obscure.append(f"{case} ends in {type(error).__name__}: {error}")
    assert not obscure, "\n".join([f"seed {seed}, {len(obscure)} of {len(cases)}:", *obscure])
    assert len(cases) >= 800 and told["TypeError"] >= 600 and told["ValueError"] >= 60, (len(cases), told)


def test_every_function_at_a_face_is_a_door():
    faces = [importlib.import_module(f"compile_lab.{each.name}") for each in pkgutil.iter_modules(compile_lab.__path__)]
    public = [getattr(face, name) for face in faces for name in getattr(face, "__all__", ())]
    functions = [each for each in public if inspect.isfunction(each)]
    assert len(functions) > 70
    assert not [each.__qualname__ for each in functions if each.__code__.co_filename != doors.__file__]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: plan(5, "fsdp", 2), TypeError, r"^plan: shape is 5; it must be of type Shape \(int is not"),
        (lambda: plan(MINI, "fsdp", 2.0), TypeError, r"devices is 2.0; it must be of type int \| Mapping\[str, int\]"),
        (lambda: plan(MINI, "fsdp"), TypeError, r"plan\(\) missing 1 required positional argument: 'devices'"),
        (lambda: table("1F1B", True, 2), ValueError, "stages is True; it must be a whole number from 1"),
        (lambda: fsdp_order(10**30, 1), ValueError, "blocks is 10.*; it must be a whole number from 1 to 100,000"),
        (lambda: step_of(["MM"], math.nan, 1), ValueError, "compute_ms is nan; it must be a finite number from 0"),
        (lambda: trace("total"), TypeError, r"trace: fn is 'total'; it must be of type Callable\[..., Any\]"),
        (lambda: Network(flop_per_s="fast"), TypeError, "Network: flop_per_s is 'fast'; it must be of type float"),
    ],
)
def test_the_message_is_the_rule(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_door_checks_what_follows_the_named_arguments():
    @doors.door
    def joined(first: str, *others: str, between: str = ",", **marks: int) -> str:
        return between.join([first, *others, *marks])

    assert joined("a", "b", between="-", c=1) == "a-b-c"
    with pytest.raises(TypeError, match=r"joined: others is \('b', 3\).*item 1"):
        joined("a", "b", 3)
    with pytest.raises(TypeError, match=r"joined: marks is \{'c': 'd'\}"):
        joined("a", c="d")


@pytest.mark.parametrize("seconds", SECONDS)
def test_a_time_that_a_child_would_stumble_over_is_told_before_it_starts(seconds, monkeypatch):
    for way in ("Popen", "run"):
        monkeypatch.setattr(subprocess, way, lambda *_, **__: pytest.fail("a child was started"))
    with pytest.raises(ValueError, match=r"^timeout_s is "):
        run_on_virtual("H200", total, torch.ones(2), timeout_s=seconds)
    with pytest.raises(ValueError, match=r"^timeout_s is "):
        interpret(total, torch.ones(2), chip="H200", timeout_s=seconds)


@pytest.mark.slow
def test_what_a_cell_shows_at_its_end_is_short():
    """Of a step of 24 layers too: a result holds its graphs, and does not print them."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(24)))
    x = torch.ones(4, 8)
    watched = watch(layers)
    watched(x)
    traced, graphs, code = trace(layers, x), training_graphs(layers, x), generated_code(layers, x)
    assert all(len(repr(each)) < 1500 for each in (traced, watched.calls[0], graphs, code))
    assert all(len(repr(each)) < 300 for each in (traced.graphs[0], graphs.joint, graphs.forward))
    assert repr(code).endswith("more lines, which print() shows")
