"""The board of known faults is what runs say: of a sample here, of all in `make test-all`."""

import json
import subprocess
import sys
from pathlib import Path

import known_faults
import pytest
import torch

from chapters.is_it_right.faults import FAULTS, RIGHT, STAGES, WRONG, board, fate, outcomes
from chapters.is_it_right.faults.catalogue import agree, as_it_is, outcome

VERSION = torch.__version__.partition("+")[0]
SAMPLE = (139789, 152425)
"""Chapter 20 has more of them in its table."""
BOARD = board()
HAS_COLUMN = pytest.mark.skipif(VERSION not in BOARD, reason="book/tools/known_faults.py gives this torch a column")


@HAS_COLUMN
@pytest.mark.processes
@pytest.mark.parametrize("number", SAMPLE)
def test_the_board_says_what_this_torch_does(number):
    assert outcomes(FAULTS[number]) == BOARD[VERSION]["faults"][str(number)]


OTHERS = """
import json, sys
from chapters.is_it_right.faults import FAULTS, outcomes
print(json.dumps(outcomes(FAULTS[int(sys.argv[1])])))
"""


@HAS_COLUMN
@pytest.mark.slow
@pytest.mark.parametrize("number", [each for each in FAULTS if each not in SAMPLE])
def test_the_board_says_it_of_every_other_program(number):
    """In a process of its own: on some CPUs the code of #196681 writes beyond a buffer; no other test may meet that."""
    command = [sys.executable, "-W", "ignore", "-c", OTHERS, str(number)]
    ran = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == BOARD[VERSION]["faults"][str(number)]


NOT_ON_A_GPU = {"190764"}  # there is no product of integers


def test_every_torch_has_run_every_program():
    for version, kept in BOARD.items():
        missing = set(map(str, FAULTS)) - set(kept["faults"])
        assert not missing or ("NVIDIA" in version and missing == NOT_ON_A_GPU)
        assert set(kept["faults"]) <= set(map(str, FAULTS)) and set(kept["provenance"]) >= {"torch", "date", "cpu"}
    ages = [[*map(int, version.partition(",")[0].split("."))] for version in BOARD]
    assert len(FAULTS) >= 40 and ages == sorted(ages)


def test_programs_are_short_and_their_eager_results_agree_with_themselves():
    for each in FAULTS.values():
        assert len(each.source.splitlines()) <= 20 and each.stage in STAGES
        assert each.source.startswith("def program(compiled):\n")
    repeated = [each for number, each in FAULTS.items() if number not in (196467, 193061)]  # empty memory; two seconds
    assert all(agree(each.program(as_it_is), each.program(as_it_is)) for each in repeated)


@pytest.mark.processes
def test_an_error_is_no_wrong_result():
    def program(compiled):
        return [compiled(lambda x: x.cos())(torch.ones(2)), compiled(7)]

    expected = [torch.ones(2).cos(), 7]
    assert outcome(program, "eager", expected).startswith("raises ")
    assert outcome(lambda compiled: [compiled(torch.cos)(torch.ones(2))], "aot_eager", expected[:1]) == RIGHT
    assert outcome(lambda compiled: [compiled(torch.sin)(torch.ones(2))], "aot_eager", expected[:1]) == WRONG


def test_rounding_is_no_difference_and_a_nan_is():
    one, nan = torch.tensor([1e6, 1.0]), torch.tensor([1e6, float("nan")])
    assert agree([one], [one + torch.tensor([0.5, 0.0])]) and not agree([one], [nan]) and agree([nan], [nan])
    assert not agree([one], [one.double()]) and not agree([one], [one[:1]]) and not agree([1], [True])
    assert not agree([torch.tensor(3)], [torch.tensor(4)])


def test_one_wrong_backend_makes_a_fault_wrong():
    assert fate({"eager": RIGHT, "inductor": RIGHT, "inductor for a virtual H200": WRONG}) == WRONG
    assert fate({"eager": RIGHT, "aot_eager": "raises RuntimeError"}) == "raises" and fate({"eager": RIGHT}) == RIGHT


def test_what_the_minifier_leaves_is_counted_and_one_that_hangs_is_ended(monkeypatch, tmp_path):
    launcher = "import pathlib; pathlib.Path('repro.py').write_text('        add = torch.ops.aten.add(a, b)\\n' * 2)"
    writes = "import os, pathlib; at = pathlib.Path(os.environ['TORCH_COMPILE_DEBUG_DIR']) / 'run'; at.mkdir(); "
    monkeypatch.setattr(known_faults, "PROGRAM", f'{writes}(at / "minifier_launcher.py").write_text({launcher!r})')
    assert known_faults.minified(186281) == "leaves 2 operations"
    monkeypatch.setattr(known_faults, "PROGRAM", "pass")
    assert known_faults.minified(186281) == "notices nothing"
    monkeypatch.setattr(known_faults, "MINIFIED_S", 0.5)
    assert not known_faults._done(["-c", "import time; time.sleep(600)"], tmp_path, {})


def test_a_run_keeps_its_own_provenance_and_the_columns_of_others(tmp_path, monkeypatch):
    def run_by_another(fault):
        known_faults.KEPT.write_text('{"2.11.0": {"faults": {}}}', "utf-8")
        return {"eager": RIGHT}

    file = tmp_path / "board.json"
    file.write_text(json.dumps({VERSION: {"faults": {"1": {}}, "provenance": {"date": "2000-01-01"}}}))
    monkeypatch.setattr(known_faults, "KEPT", file)
    monkeypatch.setattr(known_faults, "outcomes", run_by_another)
    monkeypatch.setattr("sys.argv", ["known_faults.py", "186281"])
    known_faults.main()
    columns = json.loads(file.read_text())
    assert set(columns) == {"2.11.0", VERSION} and columns[VERSION]["provenance"]["date"] > "2026"
    assert columns[VERSION]["faults"] == {"1": {}, "186281": {"eager": RIGHT}}


def test_the_tool_refuses_a_number_that_is_none(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["known_faults.py", "12"])
    with pytest.raises(SystemExit):
        known_faults.main()
    assert "no fault 12" in capsys.readouterr().err
    assert Path(known_faults.KEPT).name == "board.json"
