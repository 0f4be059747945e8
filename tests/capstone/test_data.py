"""Batches are a pure function of seed and step, and validation is apart."""

import numpy as np
import pytest
import torch

from capstone.data import ByteCorpus, GrammarCorpus, corpus
from mini_model import loop

LENGTH = 16


@pytest.fixture
def book(tmp_path):
    file = tmp_path / "book.txt"
    file.write_bytes(bytes(range(256)) * 8)
    return file


def test_without_a_text_it_is_the_grammar_with_the_batches_of_mini_model():
    found, settings = corpus((), 600, 64), loop.Settings(batch=3, seed=7)
    assert found == GrammarCorpus()
    ours, theirs = found.training(3, 64, seed=7, step=5), loop.windows(settings, 3, stream=0, step=5)
    assert all(map(torch.equal, ours, theirs))
    inputs, targets = found.validation(64, seed=7)
    assert all(map(torch.equal, (inputs, targets), loop.windows(settings, 1024, stream=1)))
    assert 3 < found.floor(64) < 4


def test_a_texts_batches_are_windows_of_it_and_depend_on_seed_and_step_only(book):
    found = corpus((book,), 600, LENGTH)
    inputs, targets = found.training(5, LENGTH, seed=1, step=2)
    assert inputs.dtype == targets.dtype == torch.int64 and inputs.shape == targets.shape == (5, LENGTH)
    assert torch.equal(targets, (inputs + 1) % 256), "each byte of this text is the one before it and one more"
    assert torch.equal(inputs, corpus((book,), 600, LENGTH).training(5, LENGTH, seed=1, step=2)[0])
    others = [(1, 3), (2, 2)]
    assert not any(torch.equal(inputs, found.training(5, LENGTH, *other)[0]) for other in others)


def test_the_end_of_a_text_is_held_out(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"a" * 900 + b"b" * 100)
    found = corpus((file,), 256, LENGTH)
    drawn = torch.cat([torch.cat(found.training(64, LENGTH, 0, step)) for step in range(20)])
    assert drawn.unique().tolist() == [ord("a")]
    inputs, targets = found.validation(LENGTH, seed=0)
    assert inputs.shape == targets.shape == (6, LENGTH) and torch.cat([inputs, targets]).unique().tolist() == [ord("b")]
    content = np.arange(2000).astype(np.uint8)
    inputs, targets = ByteCorpus(content, "text").validation(LENGTH, seed=0)
    assert inputs.flatten().tolist() == content[1800 : 1800 + inputs.numel()].tolist(), "in order"
    assert targets.flatten().tolist() == content[1801 : 1801 + inputs.numel()].tolist()


def test_every_window_before_the_end_can_come_the_shortest_text_too(tmp_path):
    file = tmp_path / "text"
    content = np.arange(10 * (LENGTH + 1), dtype=np.uint8)
    file.write_bytes(content.tobytes())
    found = corpus((file,), 256, LENGTH)
    inputs, targets = found.training(4000, LENGTH, seed=0, step=0)
    assert inputs[:, 0].unique().tolist() == list(range(len(content) - LENGTH - 1 - LENGTH))
    assert targets.max() == len(content) - LENGTH - 2 and found.validation(LENGTH, 0)[0].shape == (1, LENGTH)


def test_a_folder_counts_in_the_order_of_its_paths_without_what_is_hidden(tmp_path):
    for name, content in {"b.txt": b"B" * 200, "a/c.txt": b"C" * 200, ".git/x": b"X" * 200, ".y": b"Y" * 200}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    found = corpus((tmp_path,), 256, LENGTH)
    assert found.content.tobytes() == b"C" * 200 + b"\n" + b"B" * 200
    several = corpus((tmp_path / "a", tmp_path / "b.txt"), 256, LENGTH)
    assert several.content.tobytes() == found.content.tobytes() and several.name == found.name
    assert "401 bytes" in found.name
