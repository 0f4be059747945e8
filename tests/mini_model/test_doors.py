"""Wrong types and impossible values at the public doors: each is told by name, early, or is right after all."""

import copy
import functools
import os
import random

import pytest
import torch
import torch.distributed as dist
from fuzzed import WRONG, complaint

from mini_model import checkpoint
from mini_model.checkpoint import CheckpointError
from mini_model.generation import CachedGPT, continued, padded
from mini_model.loop import Settings, learning_rate
from mini_model.model import CONFIGS, GPTConfig, MiniGPT, check_tokens, config, generate
from mini_model.parallel.apply import make_mesh, parallelize
from mini_model.train import train

SHAPE = GPTConfig(vocabulary=30, context=4, dim=4, layers=1, heads=2)


CALLED = {"name": "config", "mesh": "devices"}
"""What a message calls an argument, where that is not its name."""


def doors(folder):
    """Each door with arguments that it takes; one of them at a time is then exchanged for a wrong one."""
    model = MiniGPT(SHAPE)
    cached = CachedGPT(model, rows=2)
    settings = {"steps": 1, "lr": 0.1}
    sizes = {"vocabulary": 30, "context": 4, "dim": 4, "layers": 1, "heads": 2, "tied_head": False}
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    saved = {"path": folder / "s.pt", "settings": settings, "step": 0, "model": model.state_dict(), "optimizer": {}}
    checkpoint.save(**saved | {"path": folder / "l.pt"})
    return [
        (GPTConfig, sizes),
        (config, {"name": "mini"}),
        (MiniGPT, {"config": SHAPE}),
        (check_tokens, {"tokens": tokens, "config": SHAPE}),
        (CachedGPT, {"model": model, "rows": 2, "slots": 4}),
        (padded, {"prompts": [[1]], "cached": cached, "new_tokens": 1, "bucket": 1}),
        (continued, {"cached": cached, "prompts": [[1]], "new_tokens": 2, "seed": 0, "temperature": 1.0, "bucket": 1}),
        (generate, {"model": model, "n": 2, "end": 0, "seed": 0, "limit": 3}),
        (Settings, {"config": "doors", "steps": 1, "batch": 1, "lr": 0.1, "seed": 0}),
        (learning_rate, {"settings": Settings(), "step": 0}),
        (train, {"settings": Settings("doors", 1, 1), "mode": "eager", "device": "cpu", "file": None, "every": 1}),
        (make_mesh, {"pattern": "ddp", "devices": 1, "device": "cpu", "replicate": 1}),
        (
            parallelize,
            {"model": model, "pattern": "tp", "mesh": 1, "schedule": "GPipe", "microbatches": 1, "dtype": None}
            | {"mode": None},
        ),
        (checkpoint.save, saved),
        (checkpoint.load, {"path": folder / "l.pt", "settings": settings, "device": "cpu"}),
    ]


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_what_no_door_takes_is_told_by_name(tmp_path, monkeypatch, one_rank, alarm):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(CONFIGS, "doors", GPTConfig(vocabulary=600, context=4, dim=4, layers=1, heads=2))
    seed = int(os.environ.get("DOORS_SEED", "0"))
    chance, found = random.Random(seed), {}
    for door, good in doors(tmp_path):
        for name in good:
            for value in chance.sample((*WRONG, GPTConfig, SHAPE), 22):
                alarm(300)
                call = functools.partial(door, **copy.deepcopy(good) | {name: value})
                names = [name, CALLED.get(name, name), *([str(value)] if name in ("path", "file") else [])]
                found[f"{door.__name__}({name}={value!r})"] = complaint(
                    call, names, (ValueError, TypeError, CheckpointError)
                )
    wrong = [f"{case} {said}" for case, said in found.items() if said]
    assert not wrong, "\n".join([f"seed {seed}:", *wrong])
    assert [*found.values()].count("") > 250


def test_without_ranks_torchrun_is_named():
    with pytest.raises(ValueError, match="torchrun"):
        make_mesh("ddp")
