"""The capstone on two ranks: as one process trains, one log, and an end of any kind is an end of all."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import astuple, replace
from pathlib import Path

import pytest
import torch
from killable import TINY, told

from capstone import ranks as on_ranks
from capstone.data import corpus
from capstone.log import Journal
from capstone.options import TrainingOptions
from capstone.train import train
from compile_lab.devices import ranks
from mini_model.checkpoint import CheckpointError
from mini_model.model import CONFIGS
from mini_model.parallel import checkpoint as sharded_checkpoint

AXIS = {"ddp": "replicate", "fsdp": "shard", "cp": "cp", "ep": "ep"}
MIXTURE = replace(TINY, experts=4)


def options(folder: Path, **more) -> TrainingOptions:
    files = {"checkpoint": folder / "run", "log": folder / "log.jsonl", "every": 3}
    return TrainingOptions(**{"config": "tiny", "steps": 8, "batch": 4, "lr": 1e-2, "seed": 5} | files | more)


def on_a_rank(asked: TrainingOptions, press: int | None = None) -> tuple | str:
    """On a rank: steps, weights, peak and ranks of a run, or what ended it; rank 1 gets Control-C at step `press`."""
    CONFIGS.update({"tiny": TINY, "tiny-mixture": MIXTURE})
    data, seen = corpus(asked.text, TINY.vocabulary, asked.window), Journal.seen

    def pressed(self, done, *rest, **now):
        if done == press and torch.distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return seen(self, done, *rest, **now)

    Journal.seen = pressed
    try:
        journal, *rest = on_ranks.train(asked, data, {AXIS[asked.parallel]: 2}, torch.device("cpu"))
        return [astuple(step)[:4] for step in journal.steps], *rest
    except (CheckpointError, KeyboardInterrupt) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        Journal.seen = seen


def all_of(*calls: tuple) -> list:
    return [on_a_rank(*call) for call in calls]


@pytest.mark.slow
def test_two_ranks_train_as_one_process_and_go_on_under_another_pattern(tmp_path):
    one, ddp, fsdp, other = (tmp_path / name for name in ("one", "ddp", "fsdp", "other"))
    for folder in (one, ddp, fsdp, other):
        folder.mkdir()
    alone = train(options(one, checkpointing=True))
    wrong = options(fsdp, parallel="fsdp", clip=0.5)
    foreign = options(other, parallel="ddp", checkpoint=None)
    (other / "log.jsonl").write_text("my diary\n")
    calls = [
        (options(ddp, parallel="ddp", checkpointing=True),),
        (options(fsdp, parallel="fsdp", checkpointing=True), 5),
        (options(fsdp, parallel="ddp"),),
        (wrong,),
        (foreign,),
        (options(other, parallel="fsdp", log=None, checkpoint=None, dtype="bfloat16"),),
    ]
    first, second = ranks.run(all_of, 2, *calls, timeout=600)
    assert first[1] == second[1] == "Stopped: after step 5 of 8"
    assert first[3] == second[3] and "other settings (clip 1.0, not 0.5)" in first[3]
    assert first[4] == second[4] and "not a log of capstone.train" in first[4]
    wanted = [astuple(step)[:4] for step in alone.steps]
    for found in (first[0][0], second[0][0], told(ddp / "log.jsonl"), told(fsdp / "log.jsonl")):
        assert len(found) == 8
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-4)
    assert [step for step, *_ in first[2][0]] == [6, 7, 8], "it went on after the step that Control-C came in"
    weights = dict(alone.model.state_dict())
    for found in (first[0][1], second[0][1], first[2][1]):
        assert found.keys() == weights.keys()
        assert all(torch.allclose(found[name], weights[name], atol=1e-4) for name in weights)
    assert first[0][2] == second[0][2] > 1e8 and first[0][3] == 2
    assert [loss for _, loss, *_ in first[5][0]] == pytest.approx(alone.losses, abs=0.02)


def test_a_mixture_and_shared_sequences_train_as_in_one_process(tmp_path, monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny-mixture", MIXTURE)
    plain, mixture = {"checkpoint": None, "log": None}, {"config": "tiny-mixture", "checkpoint": None, "log": None}
    alone = [train(options(tmp_path, **each)) for each in (plain, mixture)]
    calls = [(options(tmp_path, parallel="cp", **plain),), (options(tmp_path, parallel="ep", **mixture),)]
    assert alone[0].losses != alone[1].losses
    for found in ranks.run(all_of, 2, *calls, timeout=600):
        for (steps, *_), one in zip(found, alone, strict=True):
            for ours, theirs in zip(steps, one.steps, strict=True):
                assert ours == pytest.approx(astuple(theirs)[:4], rel=1e-4)  # the norm of all gradients among them


def killed_in_its_save(asked: TrainingOptions) -> None:
    """Rank 0 dies when its slices are written and the second checkpoint is about to take the first one's place."""
    put, calls = sharded_checkpoint._put_in_place, []

    def counted(target, *rest):
        calls.append(target)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return put(target, *rest)

    sharded_checkpoint._put_in_place = counted
    on_a_rank(asked)


PROGRAM = """
import sys
from capstone import train
from mini_model.model import CONFIGS, GPTConfig
CONFIGS["tiny"] = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=2, tied_head=True)
sys.exit(train.main(sys.argv[1:]))
"""


def torchrun(program: Path, asked: TrainingOptions) -> subprocess.Popen:
    words = f"--config tiny --steps {asked.steps} --batch 4 --lr 0.01 --seed 5 --every {asked.every} --device cpu"
    words += f" --parallel {asked.parallel} --checkpoint {asked.checkpoint} --log-file {asked.log}"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]
    return subprocess.Popen(
        [*command, *words.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background is deaf to it
    )


@pytest.mark.slow
@pytest.mark.parametrize("parallel", [pytest.param("ddp", marks=pytest.mark.matrix), "fsdp"])
def test_killed_at_many_moments_two_ranks_lose_at_most_one_interval(parallel, tmp_path, ranks_of, alive):
    """Of mini_model.parallel.train, too, whose loop and checkpoint these are."""
    seed = int(os.environ.get("KILLS_SEED", time.time_ns() % 1_000_000))
    print(f"KILLS_SEED={seed}")
    chance, program, killed, whole = random.Random(seed), tmp_path / "run.py", tmp_path / "killed", tmp_path / "whole"
    program.write_text(PROGRAM)
    killed.mkdir(), whole.mkdir()
    asked = options(killed, parallel=parallel, steps=200, every=4)
    with pytest.raises(ranks.RankFailed, match="SIGKILL"):
        ranks.run(killed_in_its_save, 2, asked, timeout=600)
    reached = kept(asked)
    assert reached == 0 and [step for step, *_ in told(asked.log)] == [1, 2, 3, 4]
    for victim in ("a rank", "torchrun", "Control-C"):
        run, goal = torchrun(program, asked), reached + chance.randrange(6, 40)
        pids = ranks_of(run)
        while last(asked.log) < goal:
            assert run.poll() is None, run.stderr.read()
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        if victim == "Control-C":
            run.send_signal(signal.SIGINT)
        else:
            os.kill(run.pid if victim == "torchrun" else chance.choice(pids), signal.SIGKILL)
        _, err = run.communicate(timeout=600)  # to the end of the last process that can write
        assert run.returncode != 0 and not alive(pids)
        at, done = kept(asked), last(asked.log)
        if victim == "Control-C":
            assert at == done and f"stopped after step {at} of 200; the same command continues from" in err
        else:
            assert done - at <= asked.every and at > reached
            assert ("torchrun is gone, so rank" if victim == "torchrun" else "SIGKILL") in err
        reached = at
    assert 0 < reached < asked.steps
    through = options(whole, parallel=parallel, steps=200, every=4)
    continued, uninterrupted = ranks.run(all_of, 2, (asked,), (through,), timeout=600)[0]
    assert told(asked.log) == told(through.log) == uninterrupted[0] and len(uninterrupted[0]) == 200
    assert continued[0] == uninterrupted[0][reached:]
    assert all(torch.equal(continued[1][name], uninterrupted[1][name]) for name in uninterrupted[1])


def kept(asked: TrainingOptions) -> int:
    """The steps that the checkpoint knows of."""
    return json.loads((asked.checkpoint / "latest.json").read_text())["step"]


def last(log: Path) -> int:
    """The last step that a log, perhaps just being written, knows of."""
    lines = log.read_bytes().split(b"\n")[:-1]
    return max([0, *(json.loads(line).get("step", 0) for line in lines)])
