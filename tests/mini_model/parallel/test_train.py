"""Training on many ranks: as one process trains, continued on other ranks, and every fault ends in a word."""

import json
import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from compile_lab.devices import ranks
from mini_model import lock, loop, train
from mini_model.checkpoint import CheckpointError
from mini_model.model import CONFIGS, GPTConfig
from mini_model.parallel import checkpoint as sharded_checkpoint
from mini_model.parallel import train as scale_out
from mini_model.parallel.apply import Parallel

pytestmark = pytest.mark.processes

SHAPE = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=4)
TINY = loop.Settings(config="tiny", steps=12, batch=8, lr=1e-2, seed=5)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(CONFIGS, "tiny", SHAPE)


def losses_of(arguments: str, settings: loop.Settings = TINY, stop: int | None = None) -> list[float] | str:
    """On a rank: the losses of a run of scale_out.train, or its CheckpointError; `stop` interrupts it after a step."""
    CONFIGS["tiny"] = SHAPE
    options, losses, step = train.parsed(arguments.split()), [], Parallel.step
    sizes = scale_out.patterns.mesh_sizes(SHAPE, options.parallel, torch.distributed.get_world_size(), **options.mesh)

    def recorded(*args):
        if len(losses) == stop:
            raise KeyboardInterrupt
        losses.append(step(*args))
        return losses[-1]

    Parallel.step = recorded
    try:
        scale_out.train(settings, options, sizes, torch.device("cpu"))
    except KeyboardInterrupt:
        pass
    except CheckpointError as error:
        return str(error)
    finally:
        Parallel.step = step
    return [loss.item() for loss in losses]


def runs(*calls: tuple) -> list:
    return [losses_of(*call) for call in calls]


@pytest.mark.slow
def test_it_trains_as_one_process_and_continues_on_fewer_ranks_and_under_another_pattern(tmp_path, monkeypatch):
    losses, step = [], loop.run_steps

    def recorded(bar, settings, optimizer, step_of, save, every):
        step(bar, settings, optimizer, lambda *batch: losses.append(step_of(*batch)) or losses[-1], save, every)

    monkeypatch.setattr(train, "run_steps", recorded)
    train.train(TINY)
    one = [loss.item() for loss in losses]
    assert one[-1] < one[0]

    to = f"--every 3 --checkpoint {tmp_path}"
    interrupted = [(f"--parallel fsdp {to}/f", TINY, 7), (f"--parallel tp {to}/t", TINY, 7)]
    for losses in ranks.run(runs, 4, *interrupted, timeout=600)[0]:
        assert losses == pytest.approx(one[:7], abs=1e-5)
    shutil.copytree(tmp_path / "f", tmp_path / "g")

    fewer, stages, slices, other = ranks.run(
        runs,
        2,
        (f"--parallel fsdp {to}/f",),
        (f"--parallel pp {to}/g",),
        (f"--parallel tp+sp {to}/t",),
        (f"--parallel tp {to}/f",),
        timeout=600,
    )[1]
    for continued in fewer, stages, slices:
        assert continued == pytest.approx(one[6:], abs=1e-5)
    assert "other settings (tensor_parallel False, not True)" in other and "name another" in other
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == ["latest.json", "step-00000012"]


def killed_in_its_save() -> None:
    """Rank 0 dies when its slices are written and the second checkpoint is about to take the first one's place."""
    checksum, folders = sharded_checkpoint._checksum, set()

    def counted(path):
        folders.add(path.parent)
        if len(folders) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return checksum(path)

    sharded_checkpoint._checksum = counted
    losses_of("--parallel fsdp --every 3 --checkpoint run")


class Executes:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def altered(name: str, index: object = None, **content: object) -> None:
    """A copy of the folder "run" with another index of slices, or other entries in latest.json, and sound checksums."""
    metadata, latest = Path(shutil.copytree("run", name)) / "step-00000000/.metadata", Path(name, "latest.json")
    told = json.loads(latest.read_text()) | content
    if index is not None:
        metadata.write_bytes(pickle.dumps(index))
        told["files"][".metadata"] = zlib.crc32(metadata.read_bytes())
    latest.write_text(json.dumps(told))


@pytest.mark.slow
def test_a_folder_is_whole_or_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ranks.RankFailed, match="SIGKILL"):
        ranks.run(killed_in_its_save, 2)
    assert {path.name for path in Path("run").iterdir()} == {".lock", "latest.json", "step-00000000", "step-00000003"}
    Path("run/.lock").unlink()

    flipped = Path(shutil.copytree("run", "flipped"))
    file = max((flipped / "step-00000000").glob("*.distcp"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    lost = Path(shutil.copytree("run", "lost"))
    (lost / "step-00000000/.metadata").unlink()
    Path("foreign").mkdir()
    Path("foreign/photo.jpg").touch()
    Path("torn").mkdir()
    Path("torn/latest.json").write_text("{")
    Path("run.pt").touch()
    index = pickle.loads(Path("run/step-00000000/.metadata").read_bytes())
    some = "optimizer.norm.bias.exp_avg"
    without = {name: value for name, value in index.state_dict_metadata.items() if name != some}
    as_bytes = index.state_dict_metadata | {some: dcp.metadata.BytesStorageMetadata()}
    altered("executes", index=Executes())
    altered("bytes", index=replace(index, state_dict_metadata=as_bytes))
    altered("letter", index={"a": "letter"})
    altered("moments", index=replace(index, state_dict_metadata=without))
    altered("step", step="soon")
    altered("elsewhere", folder="../run/step-00000000")
    altered("threads", threads=7)
    altered("locked")
    slices = [*Path(shutil.copytree("run", "nan")).glob("step-00000000/*.distcp")]
    for file in slices:  # each rank has half of a norm's weights, which are ones before the first step
        file.write_bytes(file.read_bytes().replace(b"\x00\x00\x80\x3f" * 8, b"\xff" * 32))
    told = json.loads(Path("nan/latest.json").read_text())
    told["files"] |= {file.name: zlib.crc32(file.read_bytes()) for file in slices}
    Path("nan/latest.json").write_text(json.dumps(told))
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    before = {
        path: path.read_bytes() for path in files if path.relative_to(tmp_path).parts[0] not in ("run", "threads")
    }

    made_to_fit = ["executes", "bytes", "letter", "moments", "step", "elsewhere"]
    names = ["nan", "flipped", "lost", "foreign", "torn", "run.pt", "no/such/place", *made_to_fit, "locked", "run"]
    calls = [
        (f"--parallel fsdp --checkpoint {name}", replace(TINY, lr=0.1 if name == "run" else TINY.lr)) for name in names
    ]
    go_on = [(f"--parallel fsdp --checkpoint {name}",) for name in ("threads", "run")]
    with lock.held(Path("locked/.lock"), Path("locked")):
        first, second = ranks.run(runs, 2, *calls, *go_on, timeout=600)
    assert first == second, "every rank knows"
    said = dict(zip(names, first, strict=False))
    assert re.search(r"not all finite: 'model\.\S*norm\S*weight' holds NaN", said["nan"])
    assert "checksum of step-00000000/__" in said["flipped"]
    assert "damaged" in said["lost"] and "damaged" in said["torn"]
    assert "no checkpoint" in said["foreign"] and "a file" in said["run.pt"]
    assert "No such file" in said["no/such/place"] and "no checkpoint was there before" in said["no/such/place"]
    assert "other settings (lr 0.01, not 0.1)" in said["run"]
    assert "asks for posix.mkdir" in said["executes"] and not Path("executed").exists()
    assert "asks for torch.distributed.checkpoint.metadata.BytesStorageMetadata" in said["bytes"]
    assert "its index of slices is a dict" in said["letter"] and some in said["moments"]
    assert "its step is 'soon'" in said["step"] and "it names '../run/step-00000000'" in said["elsewhere"]
    assert f"locked: another run is at work on it (process {os.getpid()}" in said["locked"]
    assert not any("weights_only" in each for each in said.values())
    assert [len(losses) for losses in first[-2:]] == [TINY.steps] * 2, (
        "and the checkpoint before the killed one goes on"
    )
    assert before == {path: path.read_bytes() for path in before}
    shown = capfd.readouterr()
    assert (shown.out + shown.err).count("its steps so far had 7 CPU threads, these have 1:") == 1, "rank 0, once"
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    "arguments, says",
    [
        ("--parallel fsdp --batch 7", "a batch of 7 rows does not divide by 2"),
        ("--parallel tp --mesh tp=3", "2 devices do not make a mesh of tp 3"),
        ("--parallel pp --schedule LoopedBFS --config deep", "6 layers do not divide by 4 stages"),
        ("", "without --parallel each would train"),
        ("--parallel fsdp --device cuda:0", "2 ranks on a machine with 0 GPUs"),
    ],
)
def test_what_does_not_go_is_told_once_and_before_anything_is_built(arguments, says, monkeypatch, capsys):
    monkeypatch.setitem(CONFIGS, "deep", replace(SHAPE, layers=6))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(train.arguments, "device", str)
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    for rank in "01":
        for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
            monkeypatch.setenv(name, value)
        assert train.main(arguments.split()) == 1
    assert capsys.readouterr().err.count(says) == 1
    assert waited == [30] and not torch.distributed.is_initialized()


def torchrun(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.mark.slow
def test_torchrun_trains_and_reports_like_one_process(monkeypatch):
    options = ["--parallel", "fsdp", "--steps", "10", "--batch", "8", "--device", "cpu"]
    run = torchrun("--standalone", "-m", "mini_model.train", *options)
    losses, finite = [], loop.finite
    monkeypatch.setattr(loop, "finite", lambda loss, step: losses.append(finite(loss, step)) or losses[-1])
    train.train(loop.Settings(steps=10, batch=8))
    out, err = run.communicate(timeout=600)
    assert run.returncode == 0, err
    report = out.splitlines()
    assert len(report) == 4 and report[0].startswith("validation loss")
    assert float(report[0].split()[2]) == pytest.approx(losses[-1], rel=0.1)
    assert "2 ranks (fsdp: shard 2) on cpu" in report[-1]
    assert err.count(" 0/10 ") == 1, "one progress bar"
    assert float(re.findall(r"loss=([0-9.]+)", err)[-1]) == pytest.approx(losses[-1], abs=1e-4)


@pytest.mark.slow
def test_hello_and_a_taken_port_come_to_an_end():
    """What becomes of a killed rank, and of ranks whose torchrun is killed, tests/capstone/test_ranks.py asks."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = torchrun("--master-addr", "127.0.0.1", "--master-port", port, "-m", "mini_model.hello")
        out, err = torchrun("--standalone", "-m", "mini_model.hello").communicate(timeout=600)
        assert sorted(out.splitlines()) == [f"hello from rank {rank} of 2: our ranks add up to 1" for rank in "01"], err
        _, err = refused.communicate(timeout=600)
    assert refused.returncode != 0 and "EADDRINUSE" in err
