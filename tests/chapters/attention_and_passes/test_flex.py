"""FlexAttention looked into: blocks against torch's own count, functions found in kernels."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from chapters.attention_and_passes import flex_view
from chapters.attention_and_passes.flex import _inlined, dense, inputs, replayed, visits
from compile_lab.inductor.records import Kernel
from mini_model.flex import causal, documents_of, same_document, sliding_window, soft_cap


def documents(length, batch=2):
    tokens = torch.arange(batch * length).view(batch, length)
    return same_document(documents_of(tokens % 150, 149))


def nothing(b, h, q, k):
    return (q < 0) & (k < 0)


@pytest.mark.parametrize("length", [512, 500])
@pytest.mark.parametrize("mask", [causal, sliding_window(200), documents, nothing])
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
        assert found.visited or found.share == found.wasted == 0


@pytest.mark.parametrize(
    ("call", "error", "word"),
    [
        (lambda: visits(lambda b, h, q, k: q - k, 128), TypeError, "True and False"),
        (lambda: visits(causal, 0), ValueError, "length"),
        (lambda: visits(causal, 8, batch=-1), ValueError, "batch"),
        (lambda: inputs(1, 0, 8, 4), ValueError, "heads"),
        (lambda: flex_view.blocks({}), ValueError, "at least one"),
    ],
)
def test_what_is_no_mask_is_refused(call, error, word):
    with pytest.raises(error, match=word):
        call()


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


def test_the_judge_knows_torchs_own_attention():
    q, k, v = (tensor.double() for tensor in inputs(2, 2, 32, 8))
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert (dense(q, k, v, None, causal) - theirs).abs().max() < 1e-12
    assert (dense(q, k, v, soft_cap(0.1), causal) - theirs).abs().max() > 0.01


@pytest.mark.slow
def test_lengths_compile_each_time_if_they_are_constants_and_documents_are_not_guarded():
    def outcomes(*masks, **options):
        return [call.outcome for call in replayed(masks, **options)]

    lengths = [(causal, length) for length in (256, 384, 512)]
    assert outcomes(*lengths, dynamic=False) == ["compiled"] * 3
    packed = [(same_document(torch.arange(512).view(2, 256) // size), 256) for size in (10, 50, 99)]
    assert outcomes(*packed) == ["compiled", "reused", "reused"]
