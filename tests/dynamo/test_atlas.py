"""The break atlas: every entry is run, and says itself which torch changed it."""

import re

import pytest
import torch

from compile_lab._torch.dynamo import dynamo_config
from compile_lab.dynamo.atlas import atlas_view, entries, run
from compile_lab.dynamo.atlas.same import same
from compile_lab.recordings import load


@pytest.fixture(scope="module")
def results():
    return tuple(map(run.judge, run.load().values()))


@pytest.mark.slow
def test_every_trigger_gives_its_id_and_every_cure_does_the_same_in_one_graph(results):
    changed = [f"{each.theme} / {each.name}: {each.id}: {each.trouble}" for each in results if not each.holds]
    assert not changed, f"torch {torch.__version__} changed {len(changed)} entries:\n" + "\n".join(changed)


@pytest.mark.slow
def test_what_is_said_of_eager_is_so(results):
    """Where the reason is that eager fails as well it does, and where another one is given it does not."""
    wrong = [
        f"{each.name}: eager {'raises' if each.eager_raises else 'runs'}, and the reason is: {each.reason}"
        for each in results
        if each.reason and each.reason.startswith("eager ") != each.eager_raises
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_the_recording_is_what_is_found_here(results):
    stored = load("break_atlas", "CPU, 2 cores")
    if stored.provenance.torch.partition("+")[0] != torch.__version__.partition("+")[0]:
        pytest.skip(f"recorded with torch {stored.provenance.torch}, and this is {torch.__version__}")
    told = ("id", "cured", "trigger", "cure", "arguments", "leaves_out")
    kept = {each["name"]: [each.get(name) for name in told] for each in stored.result["entries"]}
    found = {each.name: [getattr(each, name) for name in told] for each in results}
    assert kept == found, "run 'python -m chapters.record break_atlas', and commit what it wrote"


def branches(x, seen):
    seen.append(1)
    return x if x.sum() > 0 else -x


def forgets(x, seen):
    return torch.where(x.sum() > 0, x, -x)


def does_nothing(x, seen):
    seen.append(1)
    return x + 0


@pytest.mark.parametrize(
    ("kind", "how", "said"),
    [
        ("GB0000", {"reason": "a test"}, "GB0170"),
        ("GB0170", {"cure": entries.AtlasCure(does_nothing)}, "result"),
        ("GB0170", {"cure": entries.AtlasCure(forgets)}, "arguments"),
    ],
    ids=["another id", "another result", "no side effect"],
)
def test_what_does_not_hold_is_told(kind, how, said):
    wrong = run.judge(entries.AtlasEntry(kind, "test", branches, lambda: (-torch.ones(2), []), **how))
    assert said in wrong.trouble and wrong.found == "GB0170" and wrong.broke == (kind == wrong.found)
    assert not wrong.holds and wrong.cured is (False if "cure" in how else None)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.ones(2, requires_grad=True)),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (1, True),
    ],
)
def test_what_a_program_could_tell_apart_is_not_the_same(a, b):
    assert not same(a, b) and same(a, a) and same(b, b)


@pytest.mark.slow
def test_no_folder_of_this_machine_is_in_what_torch_says(results):
    assert not [each.name for each in results if "/" in each.context and "site-packages" in str(each)]


@pytest.mark.slow
def test_what_people_report_is_counted_once_breaks_by_default_and_has_a_cure_that_holds(results):
    by_name, rows = {each.name: each for each in results}, atlas_view.reports()["kinds"]
    assert len({row["entry"] for row in rows}) == len(rows) >= 20
    counts = [len(set(row["threads"])) for row in rows]
    assert counts == [len(row["threads"]) for row in rows] == sorted(counts, reverse=True)
    paths = {path for row in rows for path in row["threads"]}
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+/(issues|pull)/\d+", path) for path in paths)
    for row in rows:
        each = by_name[row["entry"]]
        assert each.holds and each.cured, row["entry"]
        assert all(getattr(dynamo_config, name) == value for name, value in each.config.items()), row["entry"]
