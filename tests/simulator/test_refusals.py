"""What a simulator, or the panel over it, cannot do is refused by the name of what was given: one line a case.

`tests/test_doors.py` tries other impossible values of each argument.
"""

import math

import pytest

from compile_lab import recordings
from compile_lab.page.axes import first
from compile_lab.simulator import (
    explored_view,
    fit_view,
    issuing_view,
    lifetimes_view,
    overlap_view,
    payback_view,
    pipeline_arranged_view,
    pipeline_view,
    serving_view,
    stage_view,
)
from compile_lab.simulator.budget import saved
from compile_lab.simulator.collectives_view import ring
from compile_lab.simulator.experts import expert_loads
from compile_lab.simulator.fit import fit
from compile_lab.simulator.host import HostRates
from compile_lab.simulator.issuing import issued, work
from compile_lab.simulator.joint_graphs import stored_graphs
from compile_lab.simulator.lifetimes import lived
from compile_lab.simulator.links import Links
from compile_lab.simulator.overlap import Span, Transfer, overlap_of
from compile_lab.simulator.patterns import plan
from compile_lab.simulator.payback import CompiledWay, Interval, balance
from compile_lab.simulator.pipeline import simulate, table, timeline_of
from compile_lab.simulator.pipeline_arranged import orders_of
from compile_lab.simulator.recommendation import Network, recommend
from compile_lab.simulator.serving import capacity, decode_work, least_ms, sized_work
from compile_lab.simulator.wire import Gradient, buckets, ddp_overlap, fsdp_order, measured_wire, step_of
from mini_model.model import GPT2_124M, MINI, MINI_MIXTURE

RIGHT = [[("F", 0, 0), ("B", 0, 0)], [("F", 1, 0), ("B", 1, 0)]]
LOADS = expert_loads(1.0, 2)[0]
TWO = [Gradient(2, 100), Gradient(4, 100)]
WIRE = {"cap_nbytes": 1, "bytes_per_ms": 1}
GPT = CompiledWay("GPT", "whole", 90.0, Interval(24, 23, 25), {"cold": Interval(43, 40, 50)})
ONE, COLD = Interval(1, 1, 1), {"cold": Interval(1, 1, 1)}
SENT = overlap_of([Span(0, 1)], [Transfer("all_reduce", 0, 9, 1, 0.0)])
STORED, GRAPH = next(iter(stored_graphs().items()))
STEP = lived(GRAPH, 0.5)
WORK = decode_work(1, 4, 9, 4)

# Of each explorer, a choice that it takes; a case changes one value of it.
PIPELINE = {"schedule": "GPipe", "compared_with": "1F1B", "ranks": 4, "micro_batches": 8, "backward": 2, "transfer": 0}
PIPELINE |= {"last_stage_longer_by": 0}
MACHINES = {"model": "7 B", "devices": 8, "sequences": 1, "card": 80}
BUCKETS = {"bucket": 25, "wire": 12.5, "devices": 8, "backward": 40, "latency": 0.05}
FITS = {"model": "7 B", "layers": 32, "width": 4096, "heads": 32, "vocabulary": 50257, "pattern": "best that fits"}
FITS |= {"devices": 8, "sequences": 1, "context": 2048, "checkpointing": "off", "precision": "bf16", "chip": "H100"}
FITS |= {"of_the_peak": 40}
ISSUES = {"way": "eager", "kernels": 50, "kernel_time": 3, "cost_of_an_issue": 14, "fused_into_one": 1.25}
ISSUES |= {"work_left": 80, "launch_of_a_graph": 60}
PAYS = {name: first(axis) for name, axis in payback_view.axes().items()} | {"model": payback_view.OWN}
STAGE = {"pattern": "FSDP", "devices": 4, "moment": 3, "model": "1.3 B"}


@pytest.mark.parametrize(
    ("panel", "good", "choice", "word"),
    [
        (explored_view.pipeline, PIPELINE, {"ranks": 0}, "ranks is 0"),
        (explored_view.pipeline, PIPELINE, {"ranks": 10**9}, "more than the 500,000"),
        (explored_view.pipeline, PIPELINE, {"schedule": "DualPipeV", "ranks": 8}, "at least as many microbatches"),
        (explored_view.recommended, MACHINES, {"sequences": 1.5}, "sequences is 1.5"),
        (explored_view.recommended, MACHINES, {"card": 0}, "card=0"),
        (explored_view.buckets, BUCKETS, {"wire": 0}, "wire=0"),
        (explored_view.buckets, BUCKETS, {"devices": 1}, "devices=1"),
        (fit_view.fits, FITS, {"model": fit_view.OWN, "width": 100}, "width=100"),
        (fit_view.fits, FITS, {"of_the_peak": 120}, "matrix=1.2"),
        (fit_view.fits, FITS, {"pattern": "TP", "devices": 24}, "heads=32"),
        (issuing_view.panel, ISSUES, {"kernels": 6000}, "from 1 to 5,000"),
        (issuing_view.panel, ISSUES, {"fused_into_one": 0.5}, "fused is 0.5"),
        (payback_view.panel, PAYS, {"steps": 0}, "steps is 0"),
        (payback_view.panel, PAYS, {"eager_step": 0}, "eager_step is 0"),
        (stage_view.moment, STAGE, {"moment": 17}, "moment is 17"),
        (stage_view.moment, STAGE, {"devices": 16}, "devices is 16"),
        (stage_view.moment, STAGE, {"pattern": "PP × FSDP × TP"}, "devices=4"),
        (stage_view.moment, STAGE, {"devices": 5}, "batch=24"),
    ],
)
def test_a_choice_that_cannot_be_is_told_to_the_reader_of_an_explorer(panel, good, choice, word):
    panel(**good)
    with pytest.raises(ValueError, match=word):
        panel(**good | choice)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        # plans, and what they are judged by
        (lambda: plan(MINI, "tp", 8), "heads=4.*try 1 or 2 or 4"),
        (lambda: plan(MINI, "pp", 3), "layers=4.*try 1 or 2 or 4"),
        (lambda: plan(MINI, "ddp", 4, batch=6), "batch=6.*multiple of 4"),
        (lambda: plan(MINI, "pp", 2, batch=6, microbatches=4), "microbatches=4.*try 1 or 2 or 3 or 6"),
        (lambda: plan(MINI, "pp", 4, batch=4, microbatches=2), "microbatches=2 are fewer"),
        (lambda: plan(MINI, "tp+sp", 4, length=30), "length=30"),
        (lambda: plan(MINI, "ddp", 2, length=65), "length=65.*context of 64"),
        (lambda: plan(MINI, "fsdp", 1), "devices=1"),
        (lambda: plan(MINI, "3d", 4), "devices=4"),
        (lambda: plan(MINI, "one device", 2), "devices=2"),
        (lambda: plan(MINI, "fsdp+tp", 9), "no size of axis 'tp'"),
        (lambda: plan(MINI, "fsdp+tp", {"tp": 2}), "its axes are shard, tp"),
        (lambda: plan(MINI, "zero", 2), "pattern='zero'"),
        (lambda: plan(MINI, "ddp", 2, precision="fp16"), "precision='fp16'"),
        (lambda: plan(MINI_MIXTURE, "tp", 4), "8 experts in place of each MLP.*take 'ep', 'fsdp'"),
        (lambda: plan(MINI_MIXTURE, "3d", 8), "8 experts in place of each MLP"),
        (lambda: plan(MINI, "ep", 4), "no experts to share among ep=4"),
        (lambda: plan(MINI_MIXTURE, "ep", 3), "experts=8 cannot be shared by ep=3.*try 1 or 2 or 4 or 8"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, batch=6), "batch=6.*multiple of 4"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, compiled=True), "compiled=True"),
        (lambda: plan(MINI_MIXTURE, "ep", 4, loads=LOADS), "loads are of 2 devices, and ep is 4"),
        (lambda: plan(MINI_MIXTURE, "fsdp", 2, loads=LOADS), "loads are of 2 devices, and ep is 1"),
        (lambda: recommend(GPT2_124M, 8, 0), "memory_nbytes=0"),
        (lambda: fit(fit_view.MODELS["7 B"], "ddp", 8, "T4"), "chip='T4'"),
        *((lambda r=r: Links(r), "nvlink_bytes_per_s") for r in (0.0, math.nan, math.inf)),
        (lambda: Links(cards=0), "cards"),
        *((lambda r=r: Network(memory_bytes_per_s=r), "memory_bytes_per_s") for r in (0, math.nan, math.inf)),
        *((lambda n=n: Network(**{n: -1.0}), f"{n} is -1.0") for n in ("floor_s", "hidden", "repeated")),
        *((lambda s=s: HostRates(bucket_s=s), f"bucket_s is {s}") for s in (-1.0, math.nan, math.inf)),
        (lambda: ring(1), "ranks is 1"),
        (lambda: expert_loads(1.0, 3), "64 experts cannot be divided evenly"),
        (lambda: expert_loads(1.0, 4, choices=65), "choices is 65"),
        (lambda: expert_loads(1.0, 4, remedy="luck"), "remedy is 'luck'"),
        (lambda: expert_loads(1e30, 4), "skew is 1e"),
        # pipelines
        (lambda: simulate("1F2B", 4, 8), "'GPipe', '1F1B'"),
        (lambda: simulate("ZBVZeroBubble", 5, 8), "multiple of 2"),
        (lambda: simulate("1F1B", 1000, 10**6), "1,000,000,000 forwards.*closed_form"),
        (lambda: simulate("Interleaved1F1B", 8, 9), "9 micro-batches on 4 ranks"),
        *((lambda n=n: simulate("GPipe", 2, 2, **{n: math.nan}), f"{n} is nan") for n in ("weight_grad", "between")),
        (lambda: simulate("GPipe", 2, 2, single={("F", 0, 0): -1}), "single is -1"),
        (lambda: simulate("GPipe", 2, 2, input_grad=[1, 2, 3]), "input_grad has 3 times for 2 stages"),
        (lambda: timeline_of(table("GPipe", 2, 2), transfer=-1), "transfer is -1"),
        (lambda: timeline_of([RIGHT[0], RIGHT[1][:1]]), "I of stage 1 for micro-batch 0 is there 0 times"),
        (lambda: timeline_of([RIGHT[0] * 2, RIGHT[1]]), "F of stage 0 for micro-batch 0 is there 2 times"),
        (lambda: timeline_of([RIGHT[0], [*RIGHT[1], ("W", 1, 0)]]), "a half next to its whole"),
        (
            lambda: timeline_of([[RIGHT[0][0], RIGHT[1][1]], [RIGHT[1][0], RIGHT[0][1]]]),
            r"stage 0 is on ranks \[0, 1\]",
        ),
        (lambda: timeline_of([RIGHT[0], RIGHT[1][::-1]]), "B of stage 1 for micro-batch 0 comes before its own F"),
        (lambda: timeline_of([[*RIGHT[0], ("F", 2, 0), ("B", 2, 0)], RIGHT[1]]), "deadlock: ranks"),
        (lambda: simulate("GPipe", 2, 2).of(2), "has 2, from 0"),
        *((lambda o=o: orders_of(o), "no block") for o in ("G0", "Fx", "F0 | ", "")),
        (lambda: pipeline_arranged_view.arranged(" ".join(f"F{m} B{m}" for m in range(101))), "202 blocks"),
        (lambda: pipeline_view.bubbles({}), "at least one"),
        (lambda: pipeline_view.bubbles(simulate("GPipe", 2, 4), until=8), "until=8.*takes 15"),
        (lambda: pipeline_view.overview({str(m): simulate("GPipe", 2, m) for m in (2, 4)}), "the same work"),
        # a wire
        (lambda: buckets([1], 0), "more than 0 bytes"),
        (lambda: buckets([-1], 5), "nbytes is -1"),
        (lambda: ddp_overlap([], 4, **WIRE), "at least one gradient"),
        (lambda: ddp_overlap(TWO, 3, **WIRE), "within the backward's 3 ms"),
        (lambda: ddp_overlap(TWO, 4, **WIRE | {"bytes_per_ms": 0}), "bytes_per_ms=0"),
        (lambda: ddp_overlap(TWO, 4, **WIRE, latency_ms=-1), "latency_ms is -1"),
        (lambda: measured_wire([{"kind": "send", "nbytes": 1, "median_us": 1}], "broadcast"), "broadcast"),
        (lambda: step_of(["AG0", "w0"], 1, [math.nan]), "collective_ms is nan"),
        (lambda: step_of(["AG0", "w0"], 1, [1, 1]), "2 times, and the order 1"),
        (lambda: step_of(["w0", "MM"], 1, 1), "w0 waits"),
        (lambda: step_of(["AG0", "MM"], 1, 1), "nobody waits for 0"),
        (lambda: fsdp_order(0, 1), "blocks is 0"),
        (lambda: overlap_view.timeline({}), "at least one"),
        (lambda: overlap_view.timeline(SENT, until_ms=5), "end the axis later"),
        (lambda: overlap_view.timeline(SENT, backward=True), "leave backward out"),
        # what a CPU issues, what compiling pays, what decoding needs, what a budget saves
        (lambda: work("lazy", 3, 1, 1), "way is 'lazy'"),
        (lambda: work("eager", 3, 1, math.inf), "issue_us is inf"),
        (lambda: issued(work("eager", 1, 1, 1), 0), "calls is 0"),
        (lambda: Interval(1, 2, 3), "low ≤ value ≤ high"),
        (lambda: balance(GPT, 10, 2.5), "restarts is 2.5"),
        (lambda: balance(GPT, 10, 0, "artifacts"), "'artifacts' was not measured"),
        (lambda: CompiledWay("m", "w", 1, Interval(0, 0, 0), {"warm": ONE}), "cold is not there"),
        (lambda: CompiledWay("m", "w", 1, Interval(2, 2, 2), COLD), "less than all of it"),
        (lambda: payback_view.crossings([]), "nothing to draw"),
        (lambda: decode_work(0, 4, 4, 4), "layers is 0"),
        (lambda: least_ms(WORK, 1, 0.0, 1.0), "above 0"),
        (lambda: sized_work(0, 1024, 2), "billions is 0"),
        (lambda: capacity(sized_work(7, 1024, 2), 0, 1e9, 1e12, 1e12), "batch is 0"),
        (lambda: serving_view.panel("16 bits", "1", 7, 8, 4096, 0, 700, 141), "above 0"),
        *((lambda b=b: saved(GRAPH, b), "from 0 to 1") for b in (-0.1, 1.01, math.nan)),
        (lambda: lifetimes_view.budgeted(STORED, 1.5), "from 0 to 1"),
        (lambda: lifetimes_view.largest(STEP, 3), "not on an axis"),
    ],
)
def test_what_cannot_be_is_refused_by_name(call, word):
    with pytest.raises((ValueError, IndexError, TypeError), match=word):
        call()


def test_a_workload_that_keeps_the_gpu_busy_is_no_start_for_the_controls():
    workloads = {one["name"]: one for one in recordings.load("modes").result["workloads"]}
    with pytest.raises(ValueError, match="GPT-2 training: the GPU is busy"):
        issuing_view.recorded_axes(workloads["GPT-2 training"])
