"""Pipelines on real ranks: what torch's runtime does is what the tables say, in the order and nearly in the time.

The stages nap, so that four ranks on two cores run as four devices would; what each test compares is said in it.
"""

import itertools
import json
from dataclasses import replace

import pytest
import torch

from chapters.pipeline_bubbles.experiments import pipeline as pipeline_recording
from compile_lab._torch.distributed import pipeline_sends_to_itself
from compile_lab.devices import pipeline as pipeline_ranks
from compile_lab.devices.pipeline import Gaps, Steps, gaps_of, measure_several, resimulated
from compile_lab.devices.pipeline_work import Encoder, SleepingStage
from compile_lab.devices.ranks import RankFailed
from compile_lab.simulator.pipeline import SCHEDULES, WEIGHT_GRAD, Action, Timeline, simulate, table

pytestmark = pytest.mark.processes

RANKS, MICROBATCHES = 4, 8
NEAR = 0.05
NAP_MS = 20.0
"""Of a stage's forward and of each half of its backward: long beside what a busy machine adds to an action."""

needs_no_message_to_itself = pytest.mark.skipif(pipeline_sends_to_itself(), reason="torch sends to itself over gloo")
RUNNING = [
    pytest.param(name, marks=needs_no_message_to_itself if name in ("ZBVZeroBubble", "DualPipeV") else ())
    for name in SCHEDULES
]


def measure(schedule, ranks, microbatches, work=SleepingStage(), **options):  # noqa: B008
    return measure_several([(schedule, microbatches, work)], ranks, **options)[0].best


@pytest.mark.slow  # the nearest of several: a busy machine adds to a nap
@pytest.mark.parametrize("schedule", RUNNING)
def test_real_ranks_come_near_the_simulated_bubble(schedule):
    naps = SleepingStage(NAP_MS, NAP_MS, NAP_MS)
    for _ in range(4):
        found = measure(schedule, RANKS, MICROBATCHES, naps, steps=2, warmup=0)
        if (off := abs(found.bubble_fraction - resimulated(found).bubble_fraction)) <= NEAR:
            break
    assert off <= NEAR


@pytest.mark.parametrize("schedule", RUNNING)
def test_real_ranks_keep_to_the_table(schedule):
    found = measure(schedule, RANKS, MICROBATCHES, SleepingStage(5, 5, 5), steps=2, warmup=0)
    orders = [[(a.kind, a.stage, a.microbatch) for a in found.of(rank)] for rank in range(RANKS)]
    assert orders == table(schedule, found.stages, MICROBATCHES)
    assert found.peak_activations == simulate(schedule, found.stages, MICROBATCHES).peak_activations
    assert_causes_come_first(found)


def assert_causes_come_first(found):
    """Nothing begins before what it reads has ended, and a rank does one thing at a time."""
    made = {(a.kind, a.stage, a.microbatch): a for a in found.actions if a.kind != WEIGHT_GRAD}
    reads = [(pipeline_ranks._read_by(action, made), action) for action in found.actions]
    crossing = [(read, action) for read, action in reads if read and read.rank != action.rank]
    assert len(crossing) >= 2 * (RANKS - 1) * MICROBATCHES
    assert all(read.end <= action.start for read, action in reads if read)
    for rank in range(RANKS):
        assert all(one.end <= other.start for one, other in itertools.pairwise(found.of(rank)))


def test_stages_that_compute_are_measured_too():
    steps = measure_several([("1F1B", 4, Encoder(dim=32, length=16))], 2, steps=2)[0]
    assert len(steps.timelines) == 2 and steps.best.span == min(each.span for each in steps.timelines)
    assert steps.peak_nbytes == (None, None), "a CPU does not say"
    for found in steps.timelines:
        assert 0 < found.bubble_fraction < 1 and min(a.start for a in found.actions) == 0


def timeline(*actions, ranks=2):
    return Timeline("GPipe", ranks, ranks, 2, tuple(Action(*each) for each in actions), (2,) * ranks)


def test_gaps_are_told_by_who_was_ready_first():
    found = timeline(
        (0, "F", 0, 0, 0.0, 10.0),
        (0, "F", 0, 1, 11.0, 20.0),  # reads nothing from elsewhere: 1
        (1, "F", 1, 0, 12.0, 30.0),  # the rank's first action: nobody knows since when it is ready
        (1, "F", 1, 1, 34.0, 50.0),  # was made while the rank was busy, and yet took 4
        (1, "B", 1, 0, 52.0, 60.0),  # 2
        (1, "B", 1, 1, 63.0, 70.0),  # 3
        (0, "B", 0, 0, 63.0, 70.0),  # the rank waited: 3
        (0, "B", 0, 1, 77.0, 80.0),  # 7
    )
    assert gaps_of(found) == Gaps(own=2, ready=4, waiting=5)


@pytest.mark.parametrize("schedule", ["1F1B", "LoopedBFS"])
def test_a_simulation_that_is_taken_as_measured_is_simulated_again(schedule):
    """Its delays are read off it; with receives ahead, a transfer that is partly hidden counts as neither."""
    stages = 4 * SCHEDULES[schedule]
    times = {"forward": [*range(1, stages + 1)], "input_grad": [2] * stages, "weight_grad": 0}
    once = simulate(schedule, stages, 8, **times, transfer=0.5, between=0.25, prefetch=schedule != "1F1B")
    again = resimulated(once)
    assert [str(a) for a in again.actions] == [str(a) for a in once.actions]
    assert again.span == pytest.approx(once.span, rel=0.01) and again.busy == pytest.approx(once.busy)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: measure("1F2B", 4, 8), "'GPipe', '1F1B'"),
        (lambda: measure("1F1B", 4, 2), "too few for 4"),
        (lambda: measure("GPipe", 0, 2), "n is 0"),
        (lambda: measure("GPipe", 2, 0), "microbatches is 0"),
        (lambda: measure("GPipe", 2, 2, steps=0), "steps is 0"),
        (lambda: measure("Interleaved1F1B", 4, 9), "9 micro-batches"),
        (lambda: measure("ZBVZeroBubble", 4, 8), "take backend='nccl'"),  # where torch sends to itself, gloo cannot
        (lambda: measure("DualPipeV", 4, 8), "take backend='nccl'"),
        (lambda: SleepingStage(forward_ms=[1, 2, 3]).stage(0, 2), "3 times for 2 stages"),
        (lambda: pipeline_ranks.runs("nope"), "is not known"),
        (lambda: pipeline_ranks.runs("1F1B", "mpi"), "is not known"),
    ],
)
def test_what_cannot_run_is_refused_before_a_process_starts(call, word, monkeypatch):
    monkeypatch.setattr(pipeline_ranks.ranks, "run", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr(pipeline_ranks, "pipeline_sends_to_itself", lambda: True)
    with pytest.raises(ValueError, match=word):
        call()


def later(found, by, longer):
    return replace(found, actions=tuple(a._replace(start=a.start + by, end=a.end + by + longer) for a in found.actions))


def test_a_recorded_step_is_said_in_plain_values_and_drawn_again():
    quick, slow = (simulate("1F1B", 2, 4, forward=3, transfer=wire, prefetch=False) for wire in (0.5, 1.0))
    steps = Steps((slow, quick, slow), tuple(later(each, -1.0, 0.25) for each in (slow, quick, slow)), (10, 20))
    said = pipeline_recording._as_row(steps)
    assert said["best_span_ms"] == quick.span and said["simulated_bubble"] == round(quick.bubble_fraction, 5)
    assert said["span_ms"]["median"] == slow.span and said["gap_ms"]["waiting"] == 0.5
    assert said["mean_ms"] == {"B": 2.0, "F": 3.0} and said["unit_bubble"] == 0.2
    assert said["issue_ms"] == {"B": 2.25, "F": 3.25} and said["ahead_ms"] == {"B": 0.75, "F": 0.75}
    assert said["peak_nbytes"] == [10, 20] and said["peak_activations"] == [2, 1]
    kept = pipeline_recording._plain(steps)
    usual = {"layers_of_a_rank": 8, "through_host": False}
    sizes = ((8, False), (32, False), (8, True))
    several = [{**kept, **usual, "batch_of_a_microbatch": batch, "few_channels": few} for batch, few in sizes]
    result = json.loads(json.dumps({"work": {"layers_of_a_rank": 8}, "timelines": several}))
    assert pipeline_recording.timeline(result, "1F1B") == quick
    assert pipeline_recording.timeline(result, "1F1B", issued=True) == steps.best_issued
    with pytest.raises(KeyError, match="no timeline of 'GPipe' with 8 rows was recorded; there is 1F1B"):
        pipeline_recording.timeline(result, "GPipe")
    with pytest.raises(KeyError, match="no timeline of 'GPipe' with 8 rows was recorded; there is none"):
        pipeline_recording.timeline(result, "GPipe", through_host=True)
    with pytest.raises(TypeError, match="layers is none of the settings that distinguish series: few_channels"):
        pipeline_recording.timeline(result, "1F1B", layers=2)


def test_a_step_is_predicted_from_what_was_measured_before_it_ran():
    found = simulate("1F1B", 2, 4)
    alone = {"forward": {1: 10, 2: 5}, "backward": {1: 20, 2: 10}, "transfer": 1}
    said = pipeline_recording._predicted(found, alone)
    paper = simulate("1F1B", 2, 4, forward=10, input_grad=10, weight_grad=10, transfer=1, prefetch=False)
    assert said["span_ms"] == paper.span and said["bubble"] == round(paper.bubble_fraction, 5)
    assert (said["forward_ms"], said["backward_ms"], said["transfer_ms"]) == (10, 20, 1)
    two = pipeline_recording._predicted(simulate("LoopedBFS", 4, 4), alone)
    assert (two["forward_ms"], two["backward_ms"]) == (5, 10), "two stages a rank, of half the layers"


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_recording_runs_each_schedule_with_the_layers_of_a_rank_and_what_it_has_memory_for(n):
    every = pipeline_recording._series(n, pipeline_recording.ON_GPU)
    small = [case for case in every[0].cases if every[0].env == {}]
    assert {name for name, *_ in small} == set(SCHEDULES)
    assert ("DualPipeV", n) not in {(name, m) for name, m, _ in small}, "it needs two micro-batches a rank"
    assert sum(series.env == pipeline_recording.THROUGH_HOST for series in every) == 1
    for series in every:
        for schedule, m, share in series.cases:
            assert share.layers * SCHEDULES[schedule] == series.work.layers in (2, 8)
            assert share.dtype == torch.bfloat16 and m * share.batch_size * series.work.layers <= 192 * 8
            pipeline_ranks._check(schedule, n, m, 1, "nccl")


def test_the_host_calls_for_an_action_and_comes_back_before_the_device_is_done_or_with_it():
    steps = measure_several([("1F1B", 2, SleepingStage(2, 2, 2))], 2, steps=1, warmup=0)[0]
    assert steps.best_issued is steps.issued[0]
    for action, call in zip(steps.best.actions, steps.best_issued.actions, strict=True):
        assert action[:4] == call[:4] and call.start <= action.start < action.end <= call.end


def test_ranks_have_the_environment_that_was_asked_for():
    with pytest.raises(RankFailed, match="no interface"):
        measure_several([("1F1B", 2, SleepingStage(1, 1, 1))], 2, steps=1, env={"GLOO_SOCKET_IFNAME": "no interface"})
