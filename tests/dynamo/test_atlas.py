"""The break atlas: every entry is run, and says itself which torch changed it."""

import json

import pytest
import torch

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


def test_what_is_said_of_eager_is_so(results):
    """Where the reason is that eager fails as well it does, and where another one is given it does not."""
    wrong = [
        f"{each.name}: eager {'raises' if each.eager_raises else 'runs'}, and the reason is: {each.reason}"
        for each in results
        if each.reason and each.reason.startswith("eager ") != each.eager_raises
    ]
    assert not wrong, "\n".join(wrong)


def test_the_words_are_torchs_and_the_kind_is_the_registrys(results):
    kinds = run.registry()
    assert all(each.id in kinds for each in results)
    assert all(each.kind and (each.explanation or each.hints or each.context) for each in results)


def test_at_least_two_hundred_kinds_are_covered(results):
    assert len({each.id for each in results if each.holds}) >= 200


def test_results_can_be_stored_and_read(results):
    stored = json.loads(json.dumps(run.as_record(results)))
    assert stored["registry"] == len(run.registry())
    assert [run.from_record(each) for each in stored["entries"]] == list(results)


def test_the_recording_is_what_is_found_here(results):
    stored = load("break_atlas", "CPU, 2 cores")
    if stored.provenance.torch.partition("+")[0] != torch.__version__.partition("+")[0]:
        pytest.skip(f"recorded with torch {stored.provenance.torch}, and this is {torch.__version__}")
    told = ("id", "cured", "trigger", "cure", "arguments", "leaves_out")
    kept = {each["name"]: [each.get(name) for name in told] for each in stored.result["entries"]}
    found = {each.name: [getattr(each, name) for name in told] for each in results}
    assert kept == found, "run 'python -m chapters.record break_atlas', and commit what it wrote"


def test_every_entry_has_an_answer():
    silent = [name for name, entry in run.load().items() if not (entry.cure or entry.reason)]
    assert not silent, f"neither a cure nor a reason: {silent}"


def test_one_that_gives_another_id_is_told():
    def branch_for_a_test(x):
        return x if x.sum() > 0 else -x

    wrong = run.judge(entries.AtlasEntry("GB0000", "test", branch_for_a_test, reason="a test"))
    assert not wrong.holds and wrong.found == "GB0170" and "GB0170" in wrong.trouble


def test_a_cure_that_does_something_else_is_told():
    def branch_for_a_cure(x):
        return x if x.sum() > 0 else -x

    lazy = entries.AtlasCure(lambda x: x + 0)
    entry = entries.AtlasEntry("GB0170", "test", branch_for_a_cure, lambda: (-torch.ones(2),), cure=lazy)
    wrong = run.judge(entry)
    assert wrong.broke and wrong.cured is False and "result" in wrong.trouble


def test_a_cure_that_forgets_the_side_effect_is_told():
    def appends(x, seen):
        seen.append(1)
        return x if x.sum() > 0 else -x

    def forgets(x, seen):
        return torch.where(x.sum() > 0, x, -x)

    entry = entries.AtlasEntry("GB0170", "test", appends, lambda: (torch.ones(2), []), cure=entries.AtlasCure(forgets))
    assert "arguments" in run.judge(entry).trouble


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


def test_each_entry_has_a_card_with_its_switches_and_what_its_cure_leaves_out(results):
    shown = atlas_view.BreakCards(results)._repr_html_()
    assert shown.count("<details") == len(results) and all(f'id="{each.name}"' in shown for each in results)
    by_name = {each.name: atlas_view.BreakCards([each])._repr_html_() for each in results}
    assert "patch(enable_trace_contextlib=False)" in by_name["make_a_context"]
    assert "(the message no longer shows the value):" in by_name["check_with_a_value_in_its_message"]
    assert "Breaks under" not in by_name["branch_on_a_value"] and "Called with" not in by_name["branch_on_a_value"]


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: entries.trigger("170"), "no id"),
        (lambda: entries.no_cure(same, "never written"), "no trigger"),
        (lambda: atlas_view.BreakCards([]), "nothing to show"),
    ],
)
def test_what_makes_no_entry_is_refused_early(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_a_card_shows_what_a_reader_needs_to_repeat_it(results):
    by_name = {each.name: each for each in results}
    assert by_name["under_a_lock"].arguments == "(torch.ones(3), threading.Lock())"
    assert by_name["gradient_of_another_dtype"].arguments.startswith("def leaf()")
    assert by_name["branch_on_a_value"].arguments == ""
    assert by_name["call_a_disabled_function"].cure.startswith("def taken_in(x):")
    assert by_name["hash_bytes"].cure.startswith("HASH_LENGTH = ")
    assert by_name["pop_a_mode"].trigger.startswith("from torch.overrides import _pop_mode as pop_mode\n")
    assert by_name["attributes_by_tensors_of_an_object"].trigger.startswith("class OpaqueSettings:")
    given = {name for name, entry in run.load().items() if entry.arguments is not entries.three_numbers}
    assert given == {each.name for each in results if each.arguments}


def test_no_folder_of_this_machine_is_in_what_torch_says(results):
    assert not [each.name for each in results if "/" in each.context and "site-packages" in str(each)]
