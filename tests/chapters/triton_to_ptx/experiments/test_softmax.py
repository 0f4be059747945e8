"""The hand-written softmax: right in Triton's interpreter, clear about what it does not take, measured honestly."""

import json

import pytest
import torch
from interpreted import interpreted

from chapters.triton_to_ptx.experiments.softmax import record, triton_function, without

pytest.importorskip("triton", reason="no triton for this platform")
from chapters.triton_to_ptx.experiments.softmax_kernel import MOST_COLUMNS, Configuration, fitting, softmax

pytestmark = pytest.mark.processes

INTERPRETED = """
import json, torch, triton
from chapters.triton_to_ptx.experiments.softmax_kernel import DTYPES, Configuration, softmax
torch.manual_seed(0)
# triton 3.6 interprets no loop whose bounds are tensors, under a numpy that no longer makes numbers of arrays.
persistent = [Configuration(4, 2, 2)] if triton.__version__ >= "3.7" else []
errors = {}
for dtype in DTYPES:
    for configuration in [None, Configuration(1), *persistent]:
        for shape in [(5, 300), (3, 64), (1, 1)]:
            x = torch.randn(shape).to(dtype)
            exact = x.double().softmax(-1)
            error = (softmax(x, configuration).double() - exact).abs().max().item()
            # The interpreter cuts bf16 off where a chip rounds: up to a whole last place is lost, not half of one.
            last_place = torch.finfo(dtype).eps * (1 if dtype == torch.bfloat16 else 0.5)
            errors[f"{dtype} {configuration} {shape}"] = [error, last_place * exact.max().item()]
large = softmax(torch.tensor([[1e4, 0.0, -1e4]]))
masked = softmax(torch.tensor([[float("-inf"), 1.0, 1.0]]))
print(json.dumps([errors, large.tolist(), masked.tolist()]))
"""


@pytest.fixture(scope="module")
def found():
    return interpreted(INTERPRETED)


def test_it_is_as_near_to_float64_as_its_dtype_allows(found):
    errors = found[0]
    assert len(errors) >= 18
    for name, (error, rounding) in errors.items():
        assert error <= rounding + 1e-7, name


def test_large_and_masked_values_do_not_overflow(found):
    assert found[1] == [[1, 0, 0]]
    assert found[2] == [[0, 0.5, 0.5]]


REFUSED = [
    (lambda: softmax(torch.ones(2, 3, dtype=torch.float64)), TypeError, "float32, bfloat16, float16"),
    (lambda: softmax(torch.ones(2, 3, 4)), ValueError, "contiguous"),
    (lambda: softmax(torch.ones(3, 2).T), ValueError, r"\[1, 2\]"),
    (lambda: softmax(torch.ones(1, MOST_COLUMNS + 1)), ValueError, "32768"),
    (lambda: softmax(torch.ones(2, 3)), ValueError, "TRITON_INTERPRET=1"),
    (lambda: Configuration(3), ValueError, "warps"),
    (lambda: Configuration(4, stages=0), ValueError, "at least 1"),
]


@pytest.mark.parametrize(("call", "error", "word"), REFUSED, ids=[word for *_, word in REFUSED])
def test_what_it_does_not_take_is_said(call, error, word):
    with pytest.raises(error, match=word):
        call()


def test_a_thread_holds_64_bytes_of_a_row_where_the_row_is_long_enough():
    assert [fitting(4096, itemsize).warps for itemsize in (2, 4)] == [4, 8]
    assert fitting(100, 4).warps == 1 and fitting(32_768, 4).warps == 32


SMALL = {"dtypes": {"fp32": torch.float32}, "generated": {"two loops": {}}}


@pytest.mark.slow
def test_the_measurement_holds_all_against_the_fastest_copy():
    found = record("cpu", **SMALL)
    rows = found["rows"]
    assert [row["kind"] for row in rows] == ["copy", "copy", "eager", "generated"]
    assert max(row["of_copy"] for row in rows if row["kind"] == "copy") == 1
    for row in rows:
        assert row["low_us"] <= row["median_us"] <= row["high_us"]
        assert row["gb_per_s"] == pytest.approx(2 * 64 * 4096 * 4 / row["median_us"] / 1e3, abs=0.06)
    assert all(row["max_error"] < 1e-7 for row in rows[2:])
    assert len(found["left_out"]) == 1 and "hand-written" in found["left_out"][0]
    assert json.loads(json.dumps(found)) == found


def test_code_that_ran_eagerly_is_left_out_and_the_others_are_measured():
    with torch.compiler.set_stance("force_eager"):
        found = record("cpu", **SMALL)
    assert [row["kind"] for row in found["rows"]] == ["copy", "copy", "eager"]
    assert "two loops: NotCompiledError: No compiled graph ran" in found["left_out"][1]


WRITTEN = """
loops = async_compile.triton('loops', '''
import triton

@triton.jit
def loops(x):
    pass
''', device_str='cuda')

kept = async_compile.triton('kept', '''
import triton

@triton.jit
def kept(x, y):
    pass
''', device_str='cuda')
"""


def test_the_kernel_that_is_launched_by_hand_is_the_last_that_inductor_wrote():
    name, function = triton_function(WRITTEN)
    assert name == "kept" and function.__code__.co_varnames == ("x", "y")
    with pytest.raises(ValueError, match="no Triton kernel"):
        triton_function("def call(args): ...")


def test_what_was_there_before_is_not_what_was_launched_now():
    kernels = [{"name": "a", "registers": 32}, {"name": "a", "registers": 32}, {"name": "b", "registers": 8}]
    assert without(kernels, kernels[:1]) == kernels[1:]
