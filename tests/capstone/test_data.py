"""Batches are a pure function of seed and step, validation is apart, and a text that will not do is refused by name."""

import os

import numpy as np
import pytest
import torch

from capstone.data import ByteCorpus, GrammarCorpus, TextError, corpus
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


def test_the_name_follows_the_content_not_the_place(book, tmp_path):
    moved = tmp_path / "moved"
    moved.write_bytes(book.read_bytes())
    assert corpus((book,), 256, LENGTH).name == corpus((moved,), 256, LENGTH).name
    moved.write_bytes(book.read_bytes()[:-1] + b"!")
    assert corpus((book,), 256, LENGTH).name != corpus((moved,), 256, LENGTH).name


@pytest.mark.parametrize(
    "content, says",
    [
        (None, "there is no such file"),
        (b"", "0 bytes are too short. Windows of 16 bytes need 170"),
        (b"x" * 169, "169 bytes are too short.*--length 15"),
        ({".hidden": b"x" * 900}, "a folder without a file that is not hidden"),
        ({"empty": b""}, "0 bytes are too short"),
    ],
)
def test_what_will_not_do_is_refused_by_name_rule_and_way_out(tmp_path, content, says):
    path = tmp_path / "given"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.mkdir()
        for name, inside in content.items():
            (path / name).write_bytes(inside)
    with pytest.raises(TextError, match=f"text {path}: {says}"):
        corpus((path,), 256, LENGTH)


def test_what_cannot_be_read_is_told(book, tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(TextError, match=r"pipe: neither a file nor a folder"):
        corpus((pipe,), 256, LENGTH)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", str(book))

    monkeypatch.setattr("pathlib.Path.open", refused)
    with pytest.raises(TextError, match=r"book\.txt: it cannot be read \(Permission denied\)"):
        corpus((book,), 256, LENGTH)


def test_a_model_with_too_few_ids_is_refused_and_the_length_that_a_refusal_names_goes(book, tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"x" * 169)
    assert corpus((file,), 256, 15).validation(15, 0)[0].shape == (1, 15)
    with pytest.raises(ValueError, match="256 ids, and the model knows 255"):
        corpus((book,), 255, LENGTH)
    with pytest.raises(ValueError, match="600 ids, and the model knows 599"):
        corpus((), 599, LENGTH)
