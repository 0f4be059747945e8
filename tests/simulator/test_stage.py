"""The sharding stage: what its moments add up to is what `plan` says, for every pattern, device and kind of bytes."""

import functools

import pytest

from compile_lab.page.units import with_unit
from compile_lab.simulator import stage_view
from compile_lab.simulator.explored_view import MIXTURES, MODELS
from compile_lab.simulator.holdings import GATHERED, GRADIENTS, buffers
from compile_lab.simulator.meshes import PLANNED, compared
from compile_lab.simulator.stage import stage
from compile_lab.simulator.stage_script import MOMENTS

SPREAD = [name for name, axes in PLANNED.items() if axes and name != "ep"]


@functools.cache
def played(pattern, devices, model="1.3 B", precision="bf16"):
    return stage((MODELS | MIXTURES)[model], pattern, devices, batch=24, precision=precision)


@pytest.mark.parametrize(("pattern", "devices", "model", "precision"), [
    *((pattern, 8, "1.3 B", "bf16") for pattern in SPREAD),
    *((pattern, 2 ** len(PLANNED[pattern]), "7 B", "fp32") for pattern in SPREAD),
    *((pattern, 8, "OLMoE 7 B", "bf16") for pattern in compared(MIXTURES["OLMoE 7 B"])[1:]),
])  # fmt: skip
def test_every_total_is_the_plans(pattern, devices, model, precision):
    found = played(pattern, devices, model, precision)
    frames, stages = found.frames, found.plan.stages
    assert len(frames) == MOMENTS and all(len(frame.devices) == devices for frame in frames)
    for number in range(devices):
        share = stages[number * len(stages) // devices]
        through = [frame.devices[number] for frame in frames]
        assert [device.sent_nbytes for device in through] == sorted(device.sent_nbytes for device in through)
        assert through[0].sent_nbytes == 0 and through[-1].sent_nbytes == share.sent_nbytes
        most = {kind: max(device.held[kind] for device in through) for kind in through[0].held}
        held = {"parameters": share.held.parameters, "gradients": share.held.gradients}
        held |= {"state": share.held.optimizer, "activations": share.held.activations}
        assert most == held | {
            kind: n for kind, n in buffers(found.layout, number * len(stages) // devices).items() if kind in most
        }
        assert share.buffers_nbytes == sum(most.values()) - sum(held.values())
        at_rest = through[0].held
        assert (at_rest["parameters"], at_rest["state"]) == (share.held.parameters, share.held.optimizer)
        assert at_rest["gradients"] == at_rest["activations"] == at_rest[GATHERED] == 0
        assert through[-1].held["gradients"] == share.held.gradients and through[-1].held[GATHERED] == 0


@pytest.mark.parametrize("pattern", SPREAD)
def test_moves_of_a_moment_are_what_is_sent_in_it(pattern):
    found = played(pattern, 8)
    before = [0] * 8
    for frame in found.frames:
        for number, device in enumerate(frame.devices):
            of_moves = 0
            for move in frame.moves:
                sends = [group for group in move.groups if number in (group[:1] if move.kind == "send" else group)]
                assert len(sends) <= 1, "a device takes part in one group of a move"
                of_moves += move.sent_nbytes * len(sends)
            if found.plan.mesh.get("pp", 1) == 1:  # stages of a pipeline differ in how much they have done in a span
                assert of_moves == pytest.approx(device.sent_nbytes - before[number], abs=8)
            assert bool(of_moves) >= bool(device.sent_nbytes - before[number])
            before[number] = device.sent_nbytes


def test_the_layer_in_sight_is_sliced_gathered_and_scattered():
    frames = {frame.phase: frame.devices[1].parts for frame in played("fsdp", 4).frames}
    rest, runs, done = (frames[name] for name in ("At rest", "Forward, layer 1: attention", "Forward: layer 1 is done"))
    assert {part.share for part in rest["parameters"].values()} == {0.25} and "gathered" not in rest
    assert {part.share for part in runs["gathered"].values()} == {1.0} and "gathered" not in done
    backward = frames["Backward, layer 1: attention"], frames["Backward, layer 1: gradients"]
    assert [{part.share for part in parts["gradients"].values()} for parts in backward] == [{1.0}, {0.25}]
    kept = [frame for frame in played("fsdp, kept", 4).frames if frame.phase == "Forward: layer 1 is done"]
    assert "gathered" in kept[0].devices[0].parts
    for stage_of, sliced in ((1, {"state"}), (2, {"state", "gradients"})):
        last = played(f"zero-{stage_of}", 4).frames[-1].devices[0].parts
        assert {kind for kind, parts in last.items() if parts["qkv"].share == 0.25} == sliced
        assert played(f"zero-{stage_of}", 4).frames[-1].moves[0].what == "new parameters"


def test_experts_stay_and_their_rows_travel():
    frames = {frame.phase: frame for frame in played("ep", 4, "OLMoE 7 B").frames}
    runs = frames["Forward, layer 1: experts"]
    (moved,) = runs.moves
    assert moved.kind == "all_to_all" and moved.groups == ((0, 1, 2, 3),)
    assert {name: part.share for name, part in runs.devices[1].parts["gathered"].items()} == {
        "qkv": 1, "out": 1, "up": 0.25, "down": 0.25}  # fmt: skip
    assert [device.parts["parameters"]["up"].top for device in runs.devices] == [0, 0.25, 0.5, 0.75]
    assert not any(move.kind == "all_to_all" for move in frames["Forward, layer 1: attention"].moves)
    scattered = sum(
        move.payload_nbytes for frame in frames.values() for move in frame.moves if move.kind != "all_to_all"
    )
    assert scattered < 0.1 * played("fsdp", 4, "OLMoE 7 B").plan.busiest.sent_nbytes * 4 / 3


def test_zero_2_drops_gradients_that_zero_1_keeps():
    one, two = (max(frame.devices[0].held["gradients"] for frame in played(f"zero-{n}", 4).frames) for n in (1, 2))
    on_the_way = [frame.devices[0].held[GRADIENTS] for frame in played("zero-2", 4).frames]
    assert one > 3.99 * two and max(on_the_way) > 0 and on_the_way[-1] == 0


def test_ddps_buckets_are_no_gradients_in_the_picture():
    rest, turn, end = (stage_view.kinds(played("ddp", 4).frames[at].devices[0]) for at in (0, 7, -1))
    assert rest["gradients"] == turn["gradients"] == 0 < end["gradients"]
    assert rest["buffers"] >= end["gradients"], "a copy of all gradients, there from the start"


def test_a_pipelines_devices_wait_and_talk_to_neighbours_only():
    found = played("pp", 4)
    waits = [sum(device.doing == "waits" for device in frame.devices) for frame in found.frames]
    assert waits[1] == 3 and sum(waits) == 2 * 4 * 3, "a bubble of p − 1 forwards and backwards on each device"
    assert {abs(a - b) for frame in found.frames for move in frame.moves for a, b in move.groups} == {1}


# ---- as it is seen

FIRST = {"pattern": "FSDP", "devices": 4, "moment": 3, "model": "1.3 B"}


@pytest.mark.parametrize(("name", "model"), [*((name, "1.3 B") for name in stage_view.PATTERNS),
                                             *((name, "OLMoE 7 B") for name in stage_view.WITH_EXPERTS)])  # fmt: skip
def test_a_panel_says_and_draws_what_the_frame_has(name, model):
    devices, patterns = 8 if "×" in name else 4, stage_view.PATTERNS | stage_view.WITH_EXPERTS
    for moment in range(MOMENTS):
        chosen = {"pattern": name, "moment": moment, "devices": devices, "model": model}
        said, drawn, notice = stage_view.moment(**FIRST | chosen)
        frame = played(patterns[name], devices, model).frames[moment]
        assert frame.phase in said and name in notice and all(each.what in drawn.alt for each in frame.moves)
        for device, row in zip(frame.devices, drawn.table.rows, strict=True):
            assert row[-2:] == [with_unit(device.total_nbytes), with_unit(device.sent_nbytes)]
            assert sum(stage_view.kinds(device).values()) == device.total_nbytes
