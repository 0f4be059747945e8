"""FlexAttention looked into: blocks against torch's own count, functions found in kernels, errors that show a fault."""

import re

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from chapters.load_bearing import flex_view
from chapters.load_bearing.flex import BlockVisits, _inlined, dense, inputs, replayed, visits, written
from chapters.load_bearing.flex_errors import errors
from compile_lab.inductor.records import Kernel
from mini_model.flex import causal, documents_of, same_document, sliding_window, soft_cap


def documents(length, batch=2):
    tokens = torch.arange(batch * length).view(batch, length)
    return same_document(documents_of(tokens % 150, 149))


def nothing(b, h, q, k):
    return (q < 0) & (k < 0)


@pytest.mark.parametrize("length", [512, 500])
@pytest.mark.parametrize("mask", [causal, sliding_window(200), sliding_window(1), documents, nothing])
def test_blocks_are_counted_as_torch_counts_them(mask, length):
    mask = mask(length) if mask is documents else mask
    for batch in (0, 1):
        found = visits(mask, length, batch=batch)
        theirs = create_block_mask(mask, 2, None, length, length, device="cpu")
        for row, letters in enumerate(found.rows):
            for kind, number, indices in (
                ("p", theirs.kv_num_blocks, theirs.kv_indices),
                ("f", theirs.full_kv_num_blocks, theirs.full_kv_indices),
            ):
                there = sorted(indices[batch, 0, row, : number[batch, 0, row]].tolist())
                assert [at for at, letter in enumerate(letters) if letter == kind] == there
        query, key = torch.arange(length)[:, None], torch.arange(length)[None]
        assert found.pairs == int(mask(torch.tensor(batch), 0, query, key).sum())


def test_causal_visits_half_and_a_window_a_band():
    causals = [visits(causal, length) for length in (1024, 2048, 4096)]
    assert [found.visited for found in causals] == [n * (n + 1) // 2 for n in (8, 16, 32)]
    assert [found.partial for found in causals] == [8, 16, 32]
    windows = [visits(sliding_window(128), length).visited for length in (1024, 2048, 4096)]
    assert windows == [15, 31, 63]  # doubles with the length, where causal goes up fourfold
    found = causals[0]
    assert found.wasted == pytest.approx(1 - found.pairs / (36 * 128**2)) and found.pairs == 1024 * 1025 // 2
    assert str(found) == "1,024 tokens: 36 of 64 blocks visited (56.2 %), 28 of them without asking the mask"
    assert visits(nothing, 128).share == visits(nothing, 128).wasted == 0


def test_what_is_no_mask_is_refused():
    with pytest.raises(TypeError, match="mask gave Tensor; it must give a tensor of True and False"):
        visits(lambda b, h, q, k: q - k, 128)
    with pytest.raises(ValueError, match="length is 0"):
        visits(causal, 0)
    with pytest.raises(ValueError, match="batch is -1"):
        visits(causal, 8, batch=-1)
    with pytest.raises(ValueError, match="heads is 0"):
        inputs(1, 0, 8, 4)


def template(*lines):
    body = "\n".join(["@triton.jit", "def outer(x):", "    tmp9 = tmp8", "def inner(x):", *lines])
    return Kernel("triton_tem_fused", body, "triton", "forward", (), 0)


def test_a_function_is_found_where_its_result_is_taken_and_a_score_passed_on_is_none():
    kernel = template(
        "    tmp0 = (qk)",
        "    post_mod_scores = tmp0",
        "    post_mod_scores = tl.where(a, post_mod_scores, b)",
        "        tmp1 = (m)",
        "        tmp2 = tmp1 >= 3",
        "        mask_mod_output = tmp2",
    )
    (found,) = _inlined(kernel)
    assert (found.role, found.inside, found.first, found.last) == ("mask", "inner", 8, 10)
    assert found.code == "tmp1 = (m)\ntmp2 = tmp1 >= 3\nmask_mod_output = tmp2"
    assert not list(_inlined(Kernel("triton_poi_fused", kernel.source, "triton", "forward", (), 0)))


@pytest.fixture(scope="module")
def capped():
    return written(sliding_window(100), soft_cap(20.0), length=256)


@pytest.mark.slow
def test_mask_score_and_derivative_stand_in_the_kernels(capped):
    places = {(each.inside, each.role) for each in capped.inlined}
    backward = {"bwd_dq_block_mn", "bwd_dkdv_block_mn"}
    assert places == {
        *((place, role) for place in ("forward_block_mn", *backward) for role in ("mask", "score")),
        *((place, "derivative of the score") for place in backward),
    }
    masks = [each.code for each in capped.inlined if each.role == "mask"]
    assert len(masks) == 3 and all(re.search(r">=.*\n.*-.*\n.*100.*\n.*<", code) for code in masks)
    assert all("tanh" in each.code for each in capped.inlined if each.role != "mask")
    assert len(capped.templates("forward")) == len(capped.templates("backward")) == 1
    assert not capped.code.trouble


@pytest.mark.slow
def test_a_function_beside_what_it_became(capped):
    table = flex_view.beside(capped, sliding_window(100), soft_cap(20.0))
    assert [row[0] for row in table.rows] == ["score", "mask", "derivative of the score"]
    assert table.columns[2:] == ["forward", "backward, dQ", "backward, dK dV"]
    assert table.rows[1][1].source == "(query >= key) & (query - key < width)"
    assert table.rows[2][1] == "made by autograd" and table.rows[2][2] is None
    shown = flex_view.excerpt(capped)
    own = next(each for each in capped.inlined if (each.role, each.inside) == ("mask", "forward_block_mn"))
    assert "\n".join(shown.lines[mark - 1].strip() for mark in shown.mark) == own.code
    with pytest.raises(ValueError, match="no mask in nowhere; there are score in forward_block_mn"):
        flex_view.excerpt(capped, inside="nowhere")


def test_the_judge_knows_torchs_own_attention():
    q, k, v = (tensor.double() for tensor in inputs(2, 2, 32, 8))
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert (dense(q, k, v, None, causal) - theirs).abs().max() < 1e-12
    assert (dense(q, k, v, soft_cap(0.1), causal) - theirs).abs().max() > 0.01


@pytest.mark.slow
def test_every_way_is_dense_attention_forward_and_backward():
    found = {each.way: each for each in errors(sliding_window(40), soft_cap(2.0))}
    assert list(found) == ["dense", "flex, eager", "flex, compiled here", "flex, written for the H200"]
    assert all(0 < each.worst < 2e-6 for each in found.values())
    assert len(found["flex, written for the H200"].by_result) == 4 == len(found["dense"].by_result)


@pytest.mark.slow
def test_a_mask_off_by_one_in_one_backward_is_caught_there():
    def one_less(name, source):
        before, mark, after = source.partition("def bwd_dq_block_mn")
        return before + mark + after.replace(" >= ", " > ", 1)

    (*_, found) = errors(causal, edit=one_less)
    assert found.by_result["gradient of q"] > 1e-3
    assert max(error for name, error in found.by_result.items() if name != "gradient of q") < 2e-6


@pytest.mark.slow
def test_lengths_widths_and_documents_compile_as_often_as_they_say():
    def outcomes(*masks, **options):
        return [call.outcome for call in replayed(masks, **options)]

    lengths = [(causal, length) for length in (256, 384, 512, 640)]
    assert outcomes(*lengths) == ["compiled", "compiled", "reused", "reused"]
    assert outcomes(*lengths, dynamic=False) == ["compiled"] * 4
    widths = [(sliding_window(width), 256) for width in (64, 64, 128, 200)]
    assert outcomes(*widths) == ["compiled", "reused", "compiled", "reused"]
    packed = [(same_document(torch.arange(512).view(2, 256) // size), 256) for size in (10, 50, 99)]
    assert outcomes(*packed) == ["compiled", "reused", "reused"]
    kinds = [(causal, 256), (sliding_window(64), 256), (causal, 256)]
    assert outcomes(*kinds) == ["compiled", "compiled", "reused"]


def test_a_block_is_a_square_of_its_kind():
    found = BlockVisits(256, 128, ("p ", "fp"), 3)
    drawing = flex_view.blocks({"causal": found, "same": found})
    for colour, squares in (("#0072B2", 1), ("#E69F00", 2), ("#8884", 1)):
        paths = re.findall(rf"<path d='([^']*)' fill='{colour}'", drawing.svg)
        assert sum(path.count("z") for path in paths) == 2 * squares
    assert "3 of 4 blocks" in drawing.svg and drawing.table.rows[0][2:5] == (3, 4, 1)
    with pytest.raises(ValueError, match="0 masks: give 1 to 4"):
        flex_view.blocks({})


def test_blocks_and_bytes_against_length_are_on_logarithmic_axes():
    figure = flex_view.visited({"causal": [visits(causal, length) for length in (256, 512)]})
    assert figure.plot.layout.xaxis.type == figure.plot.layout.yaxis.type == "log"
    assert "all blocks: 4 at 256, 16 at 512; causal: 3 at 256, 10 at 512" in figure.alt
    peaks = flex_view.peaks({"eager": {256: 4_000_000, 512: 16_000_000}}, {256: 10**6, 512: 4 * 10**6})
    assert "eager: 16 MB at 512 tokens; the scores alone: 4 MB at 512 tokens" in peaks.alt


def test_what_has_no_gradient_has_a_dash():
    from chapters.load_bearing.flex_errors import FlexErrors

    table = flex_view.errors({"causal": [FlexErrors("flex, eager", {"output": 1e-7})]})
    assert table.rows == [("causal", "flex, eager", "1.0e-07", None, None, None)]
