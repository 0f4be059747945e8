"""The virtual GPU: what arrives in the child, what Inductor generates there, and every way in which it can go wrong."""

import contextlib
import errno
import linecache
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from compile_lab._torch.virtual_gpu import virtual_gpu_pieces
from compile_lab.virtual_gpu import build, server, travel
from compile_lab.virtual_gpu.chips import CHIPS
from compile_lab.virtual_gpu.client import begin, run, started
from compile_lab.virtual_gpu.errors import VirtualGPUError

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="Triton, and so the virtual GPU, is made for Linux"),
]


@contextlib.contextmanager
def generated():
    """The wrappers that Inductor writes meanwhile, in the child."""
    codes = []
    lowering = virtual_gpu_pieces().GraphLowering
    lowering.save_output_code = codes.append
    yield codes
    lowering.save_output_code = None


def compiled(fn, *args, backward=True, **options):
    """In the child: the wrappers of a compiled call and of its backward."""
    with generated() as codes:
        result = torch.compile(fn, **options)(*args)
        if backward:
            loss = result if isinstance(result, torch.Tensor) else next(iter(result.values()))
            loss.float().sum().backward()
    return codes


def test_an_unknown_chip_is_told_with_the_names_of_those_there_are():
    with pytest.raises(ValueError, match="no virtual chip is called 'B200'; there is H200, H100, A100, T4"):
        run("B200", print)


def test_what_inductor_estimates_with_is_the_chips_bandwidth():
    def asked():
        from triton.testing import get_dram_gbps

        return get_dram_gbps()

    assert run("A100", asked) == CHIPS["A100"].memory_gb_per_s == 2039


@pytest.mark.parametrize("name", CHIPS)
def test_torch_in_the_child_sees_the_chip_and_here_nothing_changes(name):
    def asked():
        found = torch.cuda.get_device_properties(0)
        return torch.cuda.get_device_capability(), found.multi_processor_count, torch.ones(2, device="cuda").device.type

    before = torch.cuda.device_count(), torch.cuda.get_device_properties
    chip = CHIPS[name]
    assert run(name, asked) == (chip.capability, chip.multiprocessors, "cuda")
    assert (torch.cuda.device_count(), torch.cuda.get_device_properties) == before


def test_tensors_arrive_as_descriptions_and_ties_hold():
    model = nn.Linear(4, 4, bias=False)
    model.tied = model.weight
    model.register_buffer("scale", torch.ones(3, dtype=torch.float16))

    def asked(model, x):
        parameters = [type(p).__name__ for p in (model.weight, model.scale)]
        return (
            (x.shape, x.stride(), x.dtype, x.requires_grad, x.device.type, type(x).__name__),
            (model.tied is model.weight, isinstance(model.weight, nn.Parameter), parameters[1]),
        )

    x = torch.empty(6, 4, dtype=torch.float64).t().requires_grad_()
    described, module = run("H200", asked, model, x)
    assert described == ((4, 6), (1, 4), torch.float64, True, "cuda", "FakeTensor")
    assert module == (True, True, "FakeTensor")


def test_a_training_step_gives_kernels_for_both_directions_and_gradients_of_the_right_shape():
    def asked(model, x):
        with generated() as codes:
            torch.compile(model)(x).sum().backward()
        return codes, [p.grad.shape for p in model.parameters()]

    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32))
    codes, shapes = run("H200", asked, model, torch.ones(4, 8))
    assert len(codes) == 2 and all("async_compile.triton(" in code and "cc=90" in code for code in codes)
    assert shapes == [p.shape for p in model.parameters()]
    assert all(p.grad is None for p in model.parameters())


def test_sizes_may_be_symbolic_and_outputs_follow_the_call():
    def asked(x, y):
        fn = torch.compile(lambda x: torch.cat([x.sin(), x], 1), dynamic=True)
        with generated() as codes:
            return fn(x).shape, fn(y).shape, len(codes), "ks0" in codes[0]

    assert run("H200", asked, torch.ones(37, 91), torch.ones(5, 7)) == ((37, 182), (5, 14), 1, True)


@pytest.mark.parametrize(
    ("chip", "dtype", "kernel"),
    [("A100", torch.bfloat16, "flash"), ("A100", torch.float32, "efficient"), ("T4", torch.float16, "efficient")],
)
def test_attention_is_the_one_that_the_chip_would_take(chip, dtype, kernel):
    def attend(q):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    codes = run(chip, compiled, attend, torch.ones(2, 4, 64, 32, dtype=dtype, requires_grad=True))
    assert all(f"_scaled_dot_product_{kernel}_attention" in code for code in codes) and len(codes) == 2


def test_autocast_flex_attention_and_a_foreach_optimizer_work():
    def autocast(x, w):
        with torch.autocast("cuda", torch.bfloat16):
            return F.gelu(x @ w)

    forward, _ = run("H200", compiled, autocast, torch.ones(64, 64), torch.ones(64, 64, requires_grad=True))
    assert "torch.bfloat16" in forward and "extern_kernels.mm" in forward

    def flex(q):
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))

    q = torch.ones(1, 2, 128, 64, dtype=torch.bfloat16, requires_grad=True)
    assert all("tl.dot" in code for code in run("H200", compiled, flex, q))

    def optimizer(layer):
        adamw = torch.optim.AdamW(layer.parameters(), foreach=True)
        for parameter in layer.parameters():
            parameter.grad = torch.zeros_like(parameter)
        adamw.step()
        return compiled(adamw.step, backward=False)

    assert any("triton_for_fused" in code for code in run("H200", optimizer, nn.Linear(8, 8)))


# GPT-2's loss warns of its name, and that splits the graph.


def test_a_function_from_a_notebook_travels_with_its_source():
    source = "def cell(x):\n    import inspect\n    return inspect.getsource(cell), helper(x).shape\n"
    source += "def helper(x): return x[0]\n"
    scope = {"__name__": "__main__"}
    linecache.cache["<cell 3>"] = (len(source), None, source.splitlines(keepends=True), "<cell 3>")
    exec(compile(source, "<cell 3>", "exec"), scope)
    text, shape = run("H200", scope["cell"], torch.ones(2, 7))
    assert text.startswith("def cell(x):") and shape == (7,)


def flood(nbytes):
    for _ in range(nbytes >> 20):
        print("x" * ((1 << 20) - 1))
    print("the end", flush=True)
    return nbytes


def test_of_a_flood_the_beginning_and_the_end_are_printed_and_the_answer_is_whole(capsys):
    assert run("H200", flood, 300 << 20) == 300 << 20
    printed = capsys.readouterr().out
    assert len(printed) < 2_100_000 and printed.startswith("xxx") and printed.endswith("the end\n")
    assert "… 312,572,808 bytes are left out …" in printed


def test_a_fork_that_prints_on_does_not_keep_the_answer(capsys):
    def forks():
        if not os.fork():
            os.closerange(3, 1000)
            until = time.monotonic() + 900
            while time.monotonic() < until:
                os.write(1, b"x" * 1000)
        return "done"

    assert run("H200", forks) == "done", "and not the words of a time limit"


def test_an_exception_comes_back_with_its_words_and_its_traceback():
    def wrong():
        raise KeyError('File "/home/somebody/secret.py", line 3')

    with pytest.raises(VirtualGPUError, match="KeyError on the virtual T4") as raised:
        run("T4", wrong)
    assert raised.value.kind == "KeyError" and "in wrong" in raised.value.traceback
    assert "/home/somebody" not in str(raised.value) and "secret.py, line 3" in str(raised.value)


@pytest.mark.parametrize(
    ("die", "told"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was killed by SIGSEGV"),
        (lambda: os._exit(3), "ended with exit code 3"),
    ],
)
def test_a_child_that_dies_is_told_and_the_next_one_lives(die, told):
    with pytest.raises(VirtualGPUError, match=told):
        run("H200", die)
    assert run("H200", lambda: 1) == 1


def _server_pid():
    return next(one.process.pid for (pid, mode), one in server._servers.items() if mode == "generate")


def _gone(pid, within_s=300):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not os.path.exists(f"/proc/{pid}") or "State:\tZ" in open(f"/proc/{pid}/status").read():  # noqa: PTH110, PTH123, SIM115
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("how", [pytest.param("timeout", marks=pytest.mark.matrix), "interrupt"])
def test_a_timeout_or_an_interrupt_leaves_nothing_running(how):
    run("H200", int)
    pid = _server_pid()
    if how == "timeout":
        with pytest.raises(VirtualGPUError, match=r"no answer within 0\.5 s"):
            run("H200", time.sleep, 3600, timeout_s=0.5)
    else:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                run("H200", time.sleep, 3600)
        finally:
            signal.signal(signal.SIGALRM, before)
    assert _gone(pid)


@pytest.mark.slow
def test_the_server_ends_with_its_parent_even_if_that_is_killed():
    program = (
        "import os, signal\nfrom compile_lab.virtual_gpu import run, server\nrun('H200', int)\n"
        "print(next(iter(server._servers.values())).process.pid, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and _gone(int(done.stdout))


def test_a_full_cache_folder_is_said_with_the_way_out(monkeypatch, tmp_path):
    def full(**options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(build.tempfile, "TemporaryDirectory", full)
    with pytest.raises(VirtualGPUError, match=r"cannot be written \(No space left on device\): make room, or set"):
        build.library()


def test_without_a_compiler_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(VirtualGPUError, match=r"needs a C\+\+ compiler .*apt install g\+\+"):
        build.library()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(VirtualGPUError, match=r"\$CXX names 'no-such-compiler'"):
        build.library()


def test_a_failed_compilation_leaves_nothing_behind(monkeypatch, tmp_path):
    wrong = tmp_path / "wrong.cpp"
    wrong.write_text("this is no C++\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_SOURCE", wrong)
    with pytest.raises(VirtualGPUError, match="could not compile"):
        build.library()
    assert not list((tmp_path / "cache" / "compile_lab").iterdir())


@pytest.mark.parametrize("version", ["2.10.0", "2.16.0", "3.0.0+cpu"])
def test_a_torch_that_nobody_has_looked_at_is_refused(version):
    with pytest.raises(
        VirtualGPUError, match=f"knows those of torch 2.11 to 2.15; here is torch {version.rpartition('.')[0]}"
    ):
        build.check_torch(version)


def test_the_torch_found_on_disk_is_the_one_that_is_imported():
    folder, version = build.installed_torch()
    assert version == torch.__version__ and str(folder) == os.path.dirname(torch.__file__)  # noqa: PTH120


def test_a_parameter_and_a_view_keep_their_kind_on_the_way():
    weight = nn.Parameter(torch.arange(6.0).view(2, 3))
    back, again = travel.loads(travel.dumps((weight, weight), values=False))
    assert back is again and isinstance(back, nn.Parameter) and back.device.type == "meta"
    values = travel.loads(travel.dumps((weight * 2)[:, 1], values=True))
    assert values.is_leaf and values.requires_grad and values.tolist() == [2.0, 8.0]


def test_a_child_that_is_not_waited_for_gives_the_same_and_can_be_stopped():
    begun = begin("T4", lambda x: (torch.cuda.get_device_name(), (x @ x).shape), torch.ones(3, 3))
    assert begun.result() == ("Tesla T4", (3, 3))
    for seconds in (0, 0.5):  # before its request is sent, and while the child works
        stopped, start = begin("T4", time.sleep, 3600), time.monotonic()
        time.sleep(seconds)
        stopped.stop()
        with pytest.raises((VirtualGPUError, CancelledError)):
            stopped.result()
        assert time.monotonic() - start < 300, "half of its own time limit"
    with pytest.raises(TypeError, match="must travel to another process"):
        begin("T4", lambda lock: None, threading.Lock()).result()


def test_what_follows_on_a_result_is_not_waited_for_and_has_the_firsts_error():
    answered = begin("T4", lambda: 3).then(lambda three: run("T4", pow, three, 2))
    assert answered.result() == 9
    never = begin("T4", lambda: 1 / 0).then(pytest.fail)
    with pytest.raises(VirtualGPUError, match="ZeroDivisionError"):
        never.result()


BEFORE_TORCH = """
import sys
from compile_lab.report import worker
from compile_lab.virtual_gpu.server import _servers, come_up
coming = come_up(worker.CHIPS["T4"])
assert "torch" not in sys.modules
coming.join()
[came_up] = _servers.values()
from compile_lab.virtual_gpu import run
print(run("T4", pow, 3, 2), [*_servers.values()] == [came_up])
"""


@pytest.mark.slow
def test_a_chip_comes_up_before_torch_is_imported_and_serves_what_is_asked_then():
    ran = subprocess.run([sys.executable, "-c", BEFORE_TORCH], capture_output=True, text=True, timeout=300)
    assert ran.stdout.split() == ["9", "True"], ran.stderr


@pytest.mark.slow
def test_a_chip_that_is_started_ahead_serves_the_requests_unless_the_environment_has_changed(monkeypatch):
    def who():
        return os.getppid(), os.environ.get("SET_MEANWHILE")

    with started("T4"):
        first, _ = run("T4", who)
    assert run("T4", who) == (first, None)
    with started("T4"):
        monkeypatch.setenv("SET_MEANWHILE", "yes")
    again, seen = run("T4", who)
    assert again != first and seen == "yes"
