"""The audit: which cases, kept as it goes, going on after a rank is lost; and what its recording says."""

import json
import os
import signal
import sys
import time
from dataclasses import asdict

import pytest
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from chapters.sharding_strategies import audit as module
from chapters.sharding_strategies import audit_cases
from chapters.sharding_strategies.audit import audit, rows_of
from chapters.sharding_strategies.audit_cases import cases_of, matching
from chapters.sharding_strategies.audit_table import from_json, to_json
from chapters.sharding_strategies.experiments import dtensor
from chapters.sharding_strategies.silent_errors import ERRORS
from compile_lab import recordings

pytestmark = pytest.mark.processes

SMALL = {"samples": 1, "limit_s": 120.0}
SAMPLE = "sum,cumsum,nn.functional.mse_loss,nn.functional.one_hot,bincount,fft.irfft"
ranks_are_forked = pytest.mark.skipif(sys.platform == "win32", reason="ranks are forked")


def test_names_are_torchs_own_and_patterns_pick():
    assert len(matching()) > 600
    assert matching("sum, nn.functional.mse*") == ("nn.functional.mse_loss", "sum")
    with pytest.raises(ValueError, match="no operator of torch's table matches 'nope'"):
        matching("nope")


def test_cases_are_the_same_each_time_and_cover_each_placement():
    def told():
        return [(c.layout_name, c.call.layout, c.quantity, c.shards, c.example) for c in cases_of("add", 2, 2)]

    first = told()
    assert first == told()
    layouts = {layout for layout, *_ in first}
    assert {"R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)", "all S(0)"} <= layouts
    assert ("all S(0)", ("S(0)", "S(0)")) in {case[:2] for case in first}
    assert {asked for _, _, asked, _, _ in first} == {"value", "gradient"}
    assert {"even", "uneven"} <= {shards for *_, shards, _ in first}


def test_samples_are_of_the_most_exact_type_and_even_where_they_can_be():
    call = next(iter(cases_of("nn.functional.mse_loss", 2, 1))).call
    assert call.args[0].dtype is torch.float64 and all(size % 2 == 0 for size in call.args[0].shape)
    assert next(iter(cases_of("bincount", 2, 1))).call.args[0].dtype is torch.int64


def _told(found, names):
    """What the rows of the operators say, without the size of an error."""
    return [asdict(row) | {"detail": row.detail.split(" ")[0]} for row in found.rows if row.operator in names]


@ranks_are_forked
@pytest.mark.slow
def test_the_recording_says_what_this_torch_says():
    """Of one operator of each kind."""
    recorded = from_json(recordings.load("dtensor").result)
    sampled = audit(SAMPLE, samples=recorded.samples, limit_s=120.0)
    assert _told(sampled, sampled.asked) == _told(recorded, sampled.asked)
    assert {"wrong", "free", "paid", "refused"} <= {row.kind for row in sampled.rows}


@ranks_are_forked
@pytest.mark.slow
def test_what_is_finished_is_not_asked_again_and_other_settings_start_anew(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    first = audit("abs", kept=kept, **SMALL)
    with kept.open("a") as file:
        file.write('{"operator": "cut o')
    monkeypatch.setattr(module.gangs, "run", lambda *_, **__: pytest.fail("a finished operator was asked again"))
    assert audit("abs", kept=kept, **SMALL) == first
    monkeypatch.undo()
    again = audit("abs", kept=kept, samples=2, limit_s=120.0)
    assert again.samples == 2 and json.loads(kept.read_text().splitlines()[0])["samples"] == 2


class Info:
    """An operator of torch's table, as far as the audit looks."""

    dtypes = (torch.float64,)
    supports_autograd = False

    def __init__(self, op):
        self.op = op

    def sample_inputs(self, device, dtype, requires_grad):
        from types import SimpleNamespace

        return iter([SimpleNamespace(input=torch.ones(4, 4, dtype=dtype), args=(), kwargs={})])


def _is_on(x, rank, word):
    return isinstance(x, DTensor) and str(x.placements[0]) == word and dist.get_rank() == rank


def lost(x):
    if _is_on(x, 1, "S(0)"):
        os.kill(os.getpid(), signal.SIGKILL)
    if _is_on(x, 0, "S(1)") or _is_on(x, 0, "P(min)"):  # the last case of all
        time.sleep(3600)
    return x + 1


def late(x):
    if _is_on(x, 1, "S(0)"):
        time.sleep(3600)
    return -x


def _table():
    return {"before": Info(torch.neg), "lost": Info(lost), "next": Info(torch.abs)}


def _swept(name, *args):
    audit_cases.operators = _table
    return getattr(module, name)(*args)


def _late_once(name, *args):
    """A case that is late the first time it is asked, as on a machine that has too much to do."""
    audit_cases.operators = lambda: {"late": Info(late if name == "_on_rank" else torch.neg)}
    return getattr(module, name)(*args)


@pytest.fixture
def asked_of(monkeypatch):
    """The audit of a table of operators, which ``on_rank`` puts in place on each rank, too."""

    def asked(table, on_rank):
        monkeypatch.setattr(audit_cases, "operators", lambda: table)
        run = module.gangs.run
        monkeypatch.setattr(
            module.gangs, "run", lambda fn, n, *args, **more: run(on_rank, n, fn.__name__, *args, **more)
        )
        return audit("*", samples=1, limit_s=2.0)

    return asked


@ranks_are_forked
@pytest.mark.slow
def test_lost_ranks_are_a_ruling_and_the_rest_goes_on(asked_of):
    found = asked_of(_table(), _swept)
    hung = {row.layout: row.detail for row in found.rows if row.kind == "hangs"}
    assert set(hung) == {"S(0)", "S(1)", "P(min)"}
    assert hung["S(1)"] == "no end within the time limit" and "SIGKILL" in hung["S(0)"]
    assert {row.operator for row in found.rows} == {"before", "lost", "next"}
    layouts = {name: {row.layout for row in found.rows if row.operator == name} for name in ("before", "lost")}
    assert layouts["lost"] == layouts["before"]


def line(layout="S(0)", kind="free", **more):
    told = {"kind": kind, "what": "", "detail": "", "helps": (), "sent": [], "nbytes": 0, "shards": "even", "rule": ""}
    return {"operator": "op", "layout": layout, "asked": "value", "ruling": told | more, "example": "4×4"}


def test_equal_rulings_are_one_row_and_what_was_not_asked_is_left_out():
    lines = [line(), line(nbytes=8), line(kind="wrong", what="value", detail="off by 1"), line(kind="unasked")]
    free, wrong = rows_of(lines)
    assert (free.cases, free.nbytes, free.example) == (2, 8, "")
    assert (wrong.kind, wrong.detail, wrong.example) == ("wrong", "off by 1", "4×4")
    assert [row.kind for row in rows_of([line(kind="unasked")])] == ["unasked"]
    refusals = [line(kind="refused", detail=f"shape [{n}, 5] at 0x7f{n} with {n} of 2.5") for n in (3, 4)]
    assert [row.detail for row in rows_of(refusals)] == ["shape […] at […] with N of N"]


def test_the_recordings_audit_goes_to_json_and_back_and_what_is_none_is_refused():
    recorded = recordings.load("dtensor").result
    assert to_json(from_json(recorded)) == recorded
    with pytest.raises(ValueError, match=r"no audit: KeyError: 'rows'; take the result of recordings.load"):
        from_json({})


EXPLAINS = {
    "amax_gradient": ("amax", "amin"),
    "binary_cross_entropy_gradient": ("nn.functional.binary_cross_entropy",),
    "conv2d_over_height": tuple(
        f"nn.functional.conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3)
    ),
    "cosine_embedding_loss_over_columns": ("nn.functional.cosine_embedding_loss",),
    "histogram_after_another": ("histc",),
    "huber_loss_gradient": ("nn.functional.huber_loss",),
    "irfft_of_partial_maxima": ("fft.irfft", "fft.irfft2", "fft.irfftn"),
    "item_of_a_sum": ("item",),
    "largest_norm_of_partial_maxima": ("linalg.norm", "masked.normalize", "norm.inf"),
    "mse_loss_gradient": ("nn.functional.mse_loss",),
    "one_hot_without_a_number_of_classes": ("nn.functional.one_hot",),
    "smooth_l1_loss_gradient": ("nn.functional.smooth_l1_loss",),
    "soft_margin_loss_gradient": ("nn.functional.soft_margin_loss",),
    "vector_times_matrix": ("__rmatmul__", "nanquantile", "nn.functional.linear", "quantile"),
}
"""By name of a program, the operators of torch's table that the audit finds wrong for that reason."""


def test_each_operator_that_the_recording_has_wrong_is_explained_by_a_program():
    explained = [operator for operators in EXPLAINS.values() for operator in operators]
    assert set(EXPLAINS) <= set(ERRORS) and len(set(explained)) == len(explained)
    assert set(explained) == set(from_json(recordings.load("dtensor").result).operators("wrong"))


@ranks_are_forked
@pytest.mark.slow
def test_what_is_late_is_asked_again_before_it_is_said_to_hang(asked_of):
    found = asked_of({"late": Info(late)}, _late_once)
    assert {row.kind for row in found.rows if row.layout == "S(0)"} == {"free"}
    assert not found.operators("hangs")


@ranks_are_forked
@pytest.mark.slow
def test_the_experiment_measures_and_cleans_up(tmp_path, monkeypatch):
    monkeypatch.setattr(dtensor.tempfile, "gettempdir", lambda: str(tmp_path))
    found = from_json(dtensor.record("cuda", only="abs", samples=1))
    assert found.only == "abs" and found.operators() == ("abs",)
    assert not list(tmp_path.iterdir())
