"""Ranks: values come back, failures are named, and nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist
from jupyter_client.manager import start_new_kernel

from compile_lab.devices import ranks
from compile_lab.devices.ranks import RankFailed

pytestmark = [pytest.mark.processes, pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")]


def rank_sum(scale, *, more=0):
    total = torch.ones(3) * dist.get_rank() * scale
    dist.all_reduce(total)
    return dist.get_rank(), dist.get_world_size(), total + more


def speak():
    print(f"out of {dist.get_rank()}")
    print(f"err of {dist.get_rank()}", file=sys.stderr)


def fail(how, folder=None):
    """The last rank does what `how` says; all others wait for it in a collective."""
    if folder is not None:
        started = subprocess.Popen(["sleep", "1000"])
        Path(folder, f"{os.getpid()} {started.pid}").touch()
    dist.barrier()
    if folder is not None:
        Path(folder, str(os.getpid())).touch()
    tensor = torch.ones(3)
    if dist.get_rank() == dist.get_world_size() - 1:
        if how == "raise":
            raise ValueError("boom")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hang":
            time.sleep(1000)
        if how == "return":
            return
        if how == "shape":
            tensor = torch.ones(4)
        if how == "operation":
            dist.broadcast(tensor, 0)
    dist.all_reduce(tensor)


def status_of(pid):
    """None once it is gone; a look at a process may come at any moment of its end."""
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return None
    return None if status == psutil.STATUS_ZOMBIE else status


def left(folder):
    """Processes of ranks, and what they started, that still run."""
    numbers = [int(number) for file in Path(folder).iterdir() for number in file.name.split()]
    assert numbers, "no rank came to write its number"
    end = time.monotonic() + 300  # what was killed is gone when its parent, the server, has seen it
    while time.monotonic() < end:
        running = [number for number in numbers if status_of(number)]
        if not running:
            return []
        time.sleep(0.05)
    return running


def test_values_come_back_by_rank():
    results = ranks.run(rank_sum, 4, 2.0, more=1)
    assert [result[:2] for result in results] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert all(torch.equal(result[2], torch.full((3,), 13.0)) for result in results)


def test_functions_travel_with_what_they_use():
    scale, settings = 3.0, torch._dynamo.config

    assert ranks.run(lambda: scale * dist.get_rank() + settings.verbose, 2) == [0.0, 3.0]
    assert ranks.run(torch.get_num_threads, 2) == [1, 1]
    assert ranks.run(lambda: os.environ["MARK"], 1, env={"MARK": "here"}) == ["here"]


PRODUCT = torch.ops.aten.mm.default


def test_an_operator_of_torchs_goes_there_and_back():
    def ours(x):
        return torch.ops.aten.relu(PRODUCT(x, x)), PRODUCT

    for value, product in ranks.run(ours, 1, torch.eye(2)):
        assert torch.equal(value, torch.eye(2)) and product is PRODUCT


def test_what_ranks_print_comes_rank_after_rank(capsys):
    ranks.run(speak, 3)
    said = capsys.readouterr()
    assert said.out == "".join(f"[rank {rank}] out of {rank}\n" for rank in range(3))
    assert said.err == "".join(f"[rank {rank}] err of {rank}\n" for rank in range(3))
    ranks.run(speak, 2, echo=False)
    assert capsys.readouterr() == ("", "")


def test_ranks_are_forks_of_one_process_that_stays():
    servers = {pid for _ in range(3) for pid in ranks.run(os.getppid, 2)}
    assert len(servers) == 1 and psutil.Process(*servers).ppid() == os.getpid()


def test_a_rank_that_raises_is_named_with_its_traceback(tmp_path):
    with pytest.raises(RankFailed, match="rank 2 of 3 failed") as caught:
        ranks.run(fail, 3, "raise", tmp_path, timeout=600)
    assert caught.value.rank == 2
    message = str(caught.value).splitlines()
    assert message[-1] == "ValueError: boom"
    assert message[1].startswith("  test_ranks.py, line ")
    assert message[1].endswith('in fail: raise ValueError("boom")')
    assert left(tmp_path) == []


def test_a_rank_that_is_killed_is_named(tmp_path):
    with pytest.raises(RankFailed, match="rank 1 of 2 was killed by SIGKILL") as caught:
        ranks.run(fail, 2, "kill", tmp_path)
    assert caught.value.rank == 1
    assert left(tmp_path) == []


def stay(folder, n):
    """Until each of n ranks is past the barrier, and sleeps where it stays."""
    end, looks = time.monotonic() + 300, 0
    while looks < 3:
        assert time.monotonic() < end, "the ranks did not come"
        time.sleep(0.1)
        there = [status_of(int(file.name)) for file in folder.iterdir() if file.name.isdecimal()]
        asleep = there == n * [psutil.STATUS_SLEEPING]
        looks = looks + 1 if asleep else 0


def test_after_a_deadlock_it_is_told_where_each_rank_is(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "wait", lambda *_, timeout: stay(tmp_path, 2) or [])  # then the time is over
    monkeypatch.setattr(ranks, "GRACE_S", 5.0)
    with pytest.raises(RankFailed, match=r"no end after 5 s") as caught:
        ranks.run(fail, 2, "hang", tmp_path, timeout=5)
    assert caught.value.rank is None
    first, second = str(caught.value).splitlines()[1:3]
    assert first.startswith("  rank 0 was in fail, test_ranks.py, line ") and first.endswith("inside all_reduce")
    assert second.startswith("  rank 1 was in fail, test_ranks.py, line ") and "inside" not in second
    assert left(tmp_path) == []


def test_a_rank_that_leaves_early_is_named():
    with pytest.raises(RankFailed, match=r"rank 0 of 2 failed(.|\n)*no error of their own: rank 1"):
        ranks.run(fail, 2, "return")


@pytest.mark.parametrize("how", ["shape", pytest.param("operation", marks=pytest.mark.matrix)])
def test_ranks_that_disagree(how):
    with pytest.raises(RankFailed):
        ranks.run(fail, 2, how, timeout=4)
    with pytest.raises(RankFailed, match="Detected mismatch between collectives on ranks") as caught:
        ranks.run(fail, 2, how, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert {"shape": "shapes: ", "operation": "BROADCAST"}[how] in str(caught.value)


def test_what_cpp_says_before_it_aborts_is_in_the_message():
    def abort():
        if dist.get_rank() == 0:
            os.write(2, b"[W1121 10:00:00 noise\nterminate called\n")
            os.abort()
        dist.barrier()

    with pytest.raises(RankFailed, match=r"rank 0 of 2 was killed by SIGABRT(.|\n)*terminate called") as caught:
        ranks.run(abort, 2)
    assert "noise" not in str(caught.value)


@pytest.mark.parametrize("name", ["SIGABRT", "SIGSEGV"])
def test_a_rank_that_a_signal_ends_leaves_its_stack(name):
    def inner():
        os.abort() if name == "SIGABRT" else os.kill(os.getpid(), signal.SIGSEGV)

    def outer():
        inner()

    with pytest.raises(RankFailed) as caught:
        ranks.run(outer, 1)
    assert str(caught.value).splitlines()[:2] == [
        f"rank 0 of 1 was killed by {name}, and the others were ended:",
        "  What it ran, outermost first:",
    ]
    first, second = str(caught.value).splitlines()[2:]
    assert first.startswith("  test_ranks.py, line ") and first.endswith("in outer: inner()")
    assert second.startswith("  test_ranks.py, line ") and ", in inner: os.abort()" in second


def test_two_runs_at_once_do_not_meet():
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(ranks.run, rank_sum, 2, float(scale)) for scale in (1, 10)]
    assert [run.result()[0][2][0].item() for run in runs] == [1.0, 10.0]


def test_what_cannot_be_sent_back_is_said():
    with pytest.raises(RankFailed, match="generator, cannot be sent to the caller"):
        ranks.run(lambda: (i for i in range(3)), 1)


CELL = """
import os, time
from pathlib import Path
from compile_lab.devices import ranks

def wait():
    Path({folder!r}, str(os.getpid())).touch()
    time.sleep(3600)

print("ready", flush=True)
ranks.run(wait, 2, timeout=900)
"""


# Dynamo guards on a notebook's global, which is __main__'s.
COMPILES = """
import torch

class Scale(torch.nn.Module):
    def forward(self, x):
        return x * torch.tensor(factors)

def compiled():
    model = torch.nn.Sequential(Scale())
    return torch.compile(model, backend="eager", fullgraph=True)(torch.ones(2)).tolist()

factors = [2.0, 3.0]
assert ranks.run(compiled, 2) == [[2.0, 3.0], [2.0, 3.0]]
"""


def ranks_are_up(folder):
    end = time.monotonic() + 300
    while len(list(folder.iterdir())) < 2:
        assert time.monotonic() < end, "the ranks did not start"
        time.sleep(0.05)


def reply_to(client, request):
    while (reply := client.get_shell_msg(timeout=600))["parent_header"]["msg_id"] != request:
        pass
    return reply["content"]


@pytest.mark.slow
def test_an_interrupted_cell_leaves_no_rank_and_the_next_one_runs(tmp_path):
    manager, client = start_new_kernel(startup_timeout=300)
    try:
        # The kernel would else refuse what it is sent in the moment after an error, as it does for "run all cells".
        request = client.execute(CELL.format(folder=str(tmp_path)), stop_on_error=False)
        ranks_are_up(tmp_path)
        manager.interrupt_kernel()
        assert reply_to(client, request)["ename"] == "KeyboardInterrupt"
        assert left(tmp_path) == []
        request = client.execute(COMPILES)
        assert reply_to(client, request)["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_a_caller_that_is_killed_leaves_no_rank(tmp_path):
    program = "if __name__ == '__main__':\n" + "".join(
        f"    {line}\n" for line in CELL.format(folder=str(tmp_path)).splitlines()
    )
    script = tmp_path.parent / "caller.py"
    script.write_text(program)
    caller = subprocess.Popen([sys.executable, script], stdout=subprocess.DEVNULL)
    try:
        ranks_are_up(tmp_path)
    finally:
        caller.kill()
        caller.wait()
    assert left(tmp_path) == []


def ends_in_its_own_way(folder):
    """All join; rank 0 returns, then rank 1 is killed, then rank 2 raises; rank 3 stays."""
    rank = dist.get_rank()
    Path(folder, f"{rank} {os.getpid()}").touch()
    while len(there := dict(map(int, file.name.split()) for file in Path(folder).iterdir())) < 4:
        time.sleep(0.01)
    if rank in (1, 2):
        while status_of(there[rank - 1]):
            time.sleep(0.01)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 2:
        raise ValueError("no data")
    if rank == 3:
        time.sleep(3600)
    return rank


@pytest.mark.slow
def test_endings_tells_each_rank_apart_and_ends_those_that_go_on(tmp_path):
    returned, killed, raised, ended = ranks.endings(
        ends_in_its_own_way, 4, tmp_path, timeout=600, patience=300.0, after=5.0
    )
    assert (returned.value, returned.status) == (0, 0) and killed.status == -signal.SIGKILL
    assert raised.raised == "ValueError: no data" and raised.status == 1 and ended.status is None


def waits_for_rank_1():
    if dist.get_rank() == 0:
        dist.barrier()
    time.sleep(3600)  # it stays: a rank that ends is lost before the patience is over


@pytest.mark.slow
def test_a_group_gives_up_after_its_patience():
    waiting, absent = ranks.endings(waits_for_rank_1, 2, patience=8.0, after=0.5, timeout=600)
    assert "Timed out waiting 8000ms" in waiting.raised and waiting.status == 1
    assert absent.status is None and absent.raised == ""
