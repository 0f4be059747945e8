"""Compiled HLO read as text: every way in which a collective stands in it, and none counted twice."""

import pytest

from chapters.gspmd.gspmd_hlo import sent, totals
from compile_lab.simulator.collectives import WORLD, Collective

ADD = """
%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}
"""


def program(*lines, before=""):
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m\n{ADD}{before}\nENTRY %main (p: f32[64]) -> f32[64] {{\n{body}\n}}\n"


def found(*lines, axes=None, before=""):
    return totals(sent(program(*lines, before=before), axes or {"x": 4}))


def test_each_kind_has_the_bytes_of_the_whole_tensors():
    groups = "replica_groups={{0,1,2,3}}"
    assert found(f"%a = f32[64]{{0}} all-reduce(%p), {groups}, to_apply=%add") == (
        Collective("all_reduce", "x", 4, 1, 256),
    )
    assert found(f"%a = f32[256]{{0}} all-gather(%p), {groups}, dimensions={{0}}")[0].payload_nbytes == 1024
    scattered = found(f"%a = f32[16]{{0}} reduce-scatter(%p), {groups}, dimensions={{0}}, to_apply=%add")
    assert scattered == (Collective("reduce_scatter", "x", 4, 1, 256),)
    (sending,) = found("%a = bf16[64]{0} collective-permute(%p), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}")
    assert (sending.kind, sending.axis, sending.ranks, sending.sent_nbytes) == ("send", "x", 4, 128)


def test_a_tuple_is_one_collective_of_several_tensors():
    line = "%a = (f32[8,16]{1,0}, f32[], /*index=2*/s32[4]{0}) all-reduce(%p, %q, %r), replica_groups={}, to_apply=%add"
    (one,) = sent(program(line), {"x": 4})
    assert (one.shapes, one.payload_nbytes, one.axis) == (("f32[8,16]", "f32[]", "s32[4]"), 512 + 4 + 16, "x")


def test_a_pair_of_start_and_done_is_one():
    gather = (
        "%s = (f32[16]{0}, f32[64]{0}) all-gather-start(%p), replica_groups=[1,4]<=[4], dimensions={0}",
        "%d = f32[64]{0} all-gather-done(%s)",
    )
    assert found(*gather) == (Collective("all_gather", "x", 4, 1, 256),)
    permuted = (
        "%s = (f32[16]{0}, f32[16]{0}, u32[], u32[]) collective-permute-start(%p), source_target_pairs={{0,1}}",
        "%d = f32[16]{0} collective-permute-done(%s)",
    )
    assert found(*permuted)[0].payload_nbytes == 64
    summed = (
        "%s = ((f32[32]{0}), f32[32]{0}) all-reduce-start(%p), replica_groups=[1,4]<=[4], to_apply=%add",
        "%d = f32[32]{0} all-reduce-done(%s)",
    )
    assert found(*summed) == (Collective("all_reduce", "x", 4, 1, 128),)
    several = "%s = (f32[32]{0}, f32[8]{0}) all-reduce-start(%p, %q), replica_groups=[1,4]<=[4], to_apply=%add"
    assert found(several)[0].payload_nbytes == 160  # what it will leave, and nothing else
    scattered = "%s = ((f32[32]{0}), f32[8]{0}) reduce-scatter-start(%p), replica_groups=[1,4]<=[4], dimensions={0}"
    assert found(scattered) == (Collective("reduce_scatter", "x", 4, 1, 128),)
    inside = """
%wrapped (p: f32[64]) -> f32[16] {
  %p = f32[64]{0} parameter(0)
  ROOT %r = f32[16]{0} reduce-scatter(%p), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=%add
}
"""
    wrapped = (
        "%s = ((f32[64]{0}), f32[16]{0}) async-start(%p), calls=%wrapped",
        "%u = ((f32[64]{0}), f32[16]{0}) async-update(%s), calls=%wrapped",
        "%d = f32[16]{0} async-done(%u), calls=%wrapped",
    )
    assert found(*wrapped, before=inside) == (Collective("reduce_scatter", "x", 4, 1, 256),)


BODY = """
%body (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  ROOT %r = f32[64]{0} all-reduce(%p), replica_groups={{0,1,2,3}}, to_apply=%add
}
"""


def test_a_loop_counts_as_often_as_it_runs_and_a_fusion_once():
    loop = '%w = f32[64]{0} while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"5"}}'
    assert found(loop, before=BODY) == (Collective("all_reduce", "x", 4, 5, 1280),)
    assert found("%f = f32[64]{0} fusion(%p), kind=kLoop, calls=%body", before=BODY)[0].count == 1
    with pytest.raises(ValueError, match="the loop w has 1 collectives and no known end"):
        found("%w = f32[64]{0} while(%p), condition=%c, body=%body", before=BODY)
    branches = "%w = f32[64]{0} conditional(%i, %p, %p), branch_computations={%body, %body}"
    with pytest.raises(ValueError, match="a branch that is chosen while the program runs"):
        found(branches, before=BODY)


@pytest.mark.parametrize(
    ("groups", "axis", "ranks"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", "tp", 4),
        ("[2,4]<=[8]", "tp", 4),
        ("[4,2]<=[2,4]T(1,0)", "dp", 2),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_0'}", "dp", 2),
        ("mesh['a'=2,'b'=4], device_ids=(0,1,2,3,4,5,6,7) {'b'}", "tp", 4),
        ("mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'c'}", "dp", 2),
        ("[1,8]<=[8]", "dp+tp", 8),
        ("{}", "dp+tp", 8),
        ("{{0,1},{2,3},{4,5},{6,7}}", WORLD, 2),
    ],
)
def test_groups_in_all_their_spellings_are_told_by_the_axis(groups, axis, ranks):
    (one,) = found(f"%a = f32[64]{{0}} all-reduce(%p), replica_groups={groups}, to_apply=%add", axes={"dp": 2, "tp": 4})
    assert (one.axis, one.ranks) == (axis, ranks)


def test_single_numbers_are_left_out_and_what_is_no_program_is_refused():
    assert found("%a = f32[] all-reduce(%p), replica_groups={}, to_apply=%add") == ()
    with pytest.raises(ValueError, match="hlo has no ENTRY computation"):
        sent("nothing", {"x": 4})
