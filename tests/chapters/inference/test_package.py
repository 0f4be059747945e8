"""A package: the same answers without Python; files and inputs that are not what they seem."""

import os
import signal
import time

import pytest
import torch
from torch import nn

from chapters.inference import package as packages
from chapters.inference.package import PackageError, UncheckedInput, contents, package, run_in_cpp
from compile_lab._torch.inductor import inductor_config
from compile_lab.pickling import dumps

DYNAMIC = {"input": {0: torch.export.Dim("batch", min=1, max=8)}}


def model():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 9)).eval()
    return made


class Shifted(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.tensor([by]), persistent=False)

    def forward(self, input):
        return input + self.by


@pytest.mark.slow
def test_cpp_answers_as_eager_does_at_any_batch():
    one = model()
    made = package(one, torch.randn(4, 4), dynamic=DYNAMIC)
    assert made.operations > 0 and made.parts["machine code and weights"] > 10_000 and made.nbytes > 10_000
    assert all(name.startswith("AOTI_") for name in made.written_for)
    written = made.file.stat().st_mtime_ns
    again = package(one, torch.randn(4, 4), dynamic=DYNAMIC)
    assert again == made and again.file.stat().st_mtime_ns == written, "it is there already"
    program = packages.build_runner()
    for rows in (2, 7):
        x = torch.randn(rows, 4)
        ran = run_in_cpp(program, made.file, x, calls=2)
        torch.testing.assert_close(ran.outputs[0], one(x))
        assert ran.load_ms > 0 and ran.call_ms > 0 and ran.cpu_s > 0
    x = torch.randn(3, 4)
    found = packages.unchecked_inputs(one, {"as made": (x,), "nine rows": (torch.randn(9, 4),)}, made.file)
    assert found[0] == UncheckedInput("as made", "equal to eager", "equal to eager")
    assert found[1].unchecked == "equal to eager" and "too large" in found[1].checked


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


def test_models_that_differ_in_an_unsaved_buffer_have_packages_of_their_own():
    places = [packages._place(torch.export.export(Shifted(by), (torch.ones(2),))) for by in (1.0, 2.0, 1.0)]
    assert places[0] == places[2] != places[1]


def place(model, *args):
    return packages._place(torch.export.export(model, args))


def test_a_package_is_for_its_number_of_threads():
    model, before = nn.Linear(4, 16).eval(), torch.get_num_threads()
    x = torch.ones(4, 4)
    places = {}
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            places.setdefault(threads, set()).add(place(model, x))
    finally:
        torch.set_num_threads(before)
    assert len(places[1]) == len(places[2]) == 1 and places[1] != places[2]


def test_a_package_is_for_how_its_inputs_and_weights_lie_in_memory_and_for_inductors_options():
    model, x = nn.Linear(4, 4).eval(), torch.ones(4, 4)
    plain = place(model, x)
    assert place(model, x) == plain != place(model, x.T), "a transposed input is read otherwise"
    with inductor_config.patch(max_autotune=True):
        assert place(model, x) != plain
    turned = nn.Linear(4, 4).eval()
    turned.weight = nn.Parameter(model.weight.detach().T.contiguous().T)
    turned.bias = model.bias
    assert torch.equal(turned.weight, model.weight) and place(turned, x) != plain


def test_what_torch_notes_of_another_package_does_not_move_the_place():
    model, x = nn.Linear(4, 16).eval(), torch.ones(2, 4)
    before = place(model, x)
    with inductor_config.patch({"aot_inductor.metadata": {"AOTI_DEVICE_KEY": "cpu"}}):
        assert place(model, x) == before


def test_a_broken_file_is_named(tmp_path):
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"PK\3\4 and no more")
    for ask in (contents, lambda file: run_in_cpp(tmp_path, file, torch.ones(1))):
        with pytest.raises(PackageError, match=r"broken\.pt2 is no package of AOTInductor"):
            ask(broken)


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(PackageError, match="'no-such-compiler' is not found"):
        packages.require_compiler()


def test_a_model_that_cannot_be_exported_says_why():
    class Branching(nn.Module):
        def forward(self, input):
            return input + 1 if input.sum() > 0 else input

    with pytest.raises(PackageError, match="Branching cannot be exported"):
        package(Branching(), torch.ones(2))


@pytest.mark.slow
def test_a_way_whose_process_fails_says_so_in_its_row(tmp_path):
    in_python, in_cpp = packages.start_ups(tmp_path / "none.pt2", torch.ones(1, 4))
    assert in_python.ready_s is None and "ended with 1" in in_python.stopped
    assert in_cpp.ready_s is None and "is no package" in in_cpp.stopped
