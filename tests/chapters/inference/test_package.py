"""A package: the same answers without Python; files and inputs that are not what they seem."""

import os
import signal
import time

import pytest
import torch
from torch import nn

from chapters.inference import package as packages
from chapters.inference.package import PackageError, contents, package, run_in_cpp
from compile_lab._torch.inductor import inductor_config
from compile_lab.pickling import dumps

DYNAMIC = {"input": {0: torch.export.Dim("batch", min=1, max=8)}}


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 9)).eval()


class Shifted(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.tensor([by]), persistent=False)

    def forward(self, input):
        return input + self.by


@pytest.mark.slow
def test_cpp_answers_as_eager_does_at_another_batch_and_the_same_model_is_compiled_once():
    one = model()
    made = package(one, torch.randn(4, 4), dynamic=DYNAMIC)
    written = made.file.stat().st_mtime_ns
    again = package(one, torch.randn(4, 4), dynamic=DYNAMIC)
    assert again == made and again.file.stat().st_mtime_ns == written, "it is there already"
    x = torch.randn(7, 4)
    torch.testing.assert_close(run_in_cpp(packages.build_runner(), made.file, x, calls=2).outputs[0], one(x))


class Does:
    """``call(*given)`` in the process that reads it."""

    def __init__(self, call, *given):
        self.call, self.given = call, given

    def __reduce__(self):
        return self.call, self.given


def asked(tmp_path, pickled, check="0"):
    given = tmp_path / "given"
    given.write_bytes(dumps((model(), {"it": pickled})))
    return packages._outcomes(given, ["it"], tmp_path / "none.pt2", check)["it"]


@pytest.mark.slow
@pytest.mark.processes
def test_one_process_answers_all_questions_also_after_a_fork_of_it_died(tmp_path, monkeypatch):
    assert asked(tmp_path, Does(os.abort)) == "the process died"
    (first,) = packages._askers
    assert asked(tmp_path, (torch.ones(1, 4),), "1").startswith("refused: ")
    with pytest.raises(PackageError, match="the package failed: ZeroDivisionError"):
        asked(tmp_path, Does(divmod, 1, 0))
    program = "import sys, torch; print(1 / torch.load(sys.argv[2]))"
    said = [packages.run_elsewhere(program, tmp_path / "none.pt2", number) for number in (4, 0)]
    assert said == ["0.25", "no answer: status 1, ZeroDivisionError: division by zero"]
    assert packages._askers == [first] and first.poll() is None
    monkeypatch.setattr(packages, "PATIENCE_S", 0.2)
    with pytest.raises(PackageError, match=r"ended, or took over 0\.2 s"):
        asked(tmp_path, Does(time.sleep, 600))
    assert first.returncode == -signal.SIGKILL
    monkeypatch.undo()
    assert asked(tmp_path, (torch.ones(1, 4),)).startswith("refused: ")


def test_forks_know_the_cpu_and_do_not_try_it_anew(tmp_path):
    program = "from torch._inductor import cpu_vec_isa as it; print(it.valid_vec_isa_list.cache_info().currsize)"
    assert packages.run_elsewhere(program, tmp_path / "none.pt2", 0) == "1"


def place(model, *args):
    return packages._place(torch.export.export(model, args))


def test_a_package_is_for_its_number_of_threads():
    before, places = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            places.append(place(model(), torch.ones(4, 4)))
    finally:
        torch.set_num_threads(before)
    assert places[0] == places[2] != places[1]


def test_a_package_is_for_what_lies_in_its_inputs_weights_and_buffers_and_how_and_for_inductors_options():
    model, x = nn.Linear(4, 4).eval(), torch.ones(4, 4)
    plain = place(model, x)
    assert place(model, x) == plain != place(model, x.T), "a transposed input is read otherwise"
    with inductor_config.patch(max_autotune=True):
        assert place(model, x) != plain
    with inductor_config.patch({"aot_inductor.metadata": {"AOTI_DEVICE_KEY": "cpu"}}):
        assert place(model, x) == plain, "torch's notes of another package"
    turned = nn.Linear(4, 4).eval()
    turned.weight = nn.Parameter(model.weight.detach().T.contiguous().T)
    turned.bias = model.bias
    assert torch.equal(turned.weight, model.weight) and place(turned, x) != plain
    one, other, same = (place(Shifted(by), torch.ones(2)) for by in (1.0, 2.0, 1.0))
    assert one == same != other, "a buffer that is not saved"


class Branching(nn.Module):
    def forward(self, input):
        return input + 1 if input.sum() > 0 else input


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (contents, r"broken\.pt2 is no package of AOTInductor"),
        (lambda file: run_in_cpp(file, file, torch.ones(1)), r"broken\.pt2 is no package of AOTInductor"),
        (lambda file: packages.require_compiler(), "'no-such-compiler' is not found"),
        (lambda file: package(Branching(), torch.ones(2)), "Branching cannot be exported"),
    ],
)
def test_what_makes_or_is_no_package_is_named(call, word, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(PackageError, match=word):
        call(broken)


@pytest.mark.slow
def test_a_way_whose_process_fails_says_so_in_its_row(tmp_path):
    in_python, in_cpp = packages.start_ups(tmp_path / "none.pt2", torch.ones(1, 4))
    assert in_python.ready_s is None and "ended with 1" in in_python.stopped
    assert in_cpp.ready_s is None and "is no package" in in_cpp.stopped
