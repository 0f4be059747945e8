"""What there is to train on: the grammar, or any text, whose bytes are the tokens.

A batch is a pure function of (seed, step), so that a run that was killed and continued sees what an uninterrupted one
sees. Validation is apart: other sentences of the grammar, the last tenth of a text.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mini_model import inputs
from mini_model.grammar import GRAMMAR
from mini_model.loop import VALIDATION_TOKENS

HELD_OUT = 10
"""One byte in so many, the text's end, is for validation."""
CHUNK = 1 << 24  # bytes


class TextError(ValueError):
    """A text cannot be trained on; the message names the path, the rule and the way out."""


@dataclass(frozen=True)
class GrammarCorpus:
    """Sentences of `mini_model.grammar`: a fresh stream of words for each window.

    >>> from capstone.data import GrammarCorpus
    >>> tokens, targets = GrammarCorpus().training(n=4, length=16, seed=0, step=0)
    >>> tokens.shape, GrammarCorpus().ids, round(GrammarCorpus().floor(64), 3)
    (torch.Size([4, 16]), 600, 3.546)
    """

    name: str = "grammar"
    unit: str = "word"
    ids: int = len(GRAMMAR.vocabulary)

    def training(self, n: int, length: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step, int64 [n, length] each."""
        return _pair(GRAMMAR.windows(n, length, seed=[seed, 0, step]))

    def validation(self, length: int, seed: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, int64 [n, length] each, of about 65,536 tokens that no step of training sees."""
        return _pair(GRAMMAR.windows(max(1, VALIDATION_TOKENS // length), length, seed=[seed, 1, 0]))

    def floor(self, length: int) -> float | None:
        """The entropy of a token in windows of that length, in nats: no loss of a model is below it for long."""
        return GRAMMAR.window_entropy(length)


@dataclass(frozen=True)
class ByteCorpus:
    """A text, of which every byte is a token: ids 0 to 255.

    content: uint8 [bytes], in memory or mapped from the disk. name: its size and checksum, by which a checkpoint knows
    it again, wherever it lies.

    >>> import numpy as np
    >>> from capstone.data import ByteCorpus
    >>> text = ByteCorpus(np.frombuffer(b"to compile or not to compile " * 10, np.uint8), "a saying")
    >>> bytes(text.validation(length=12, seed=0)[0][0].tolist())
    b'to compile o'
    """

    content: np.ndarray = field(repr=False, compare=False)
    name: str
    unit: str = "byte"
    ids: int = 256

    def training(self, n: int, length: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a step, int64 [n, length] each: windows from anywhere before the held-out end."""
        last = len(self.content) - self._held - length
        starts = np.random.default_rng([seed, 0, step]).integers(0, last, size=(n, 1))
        return _pair(self.content[starts + np.arange(length + 1)].astype(np.int64))

    def validation(self, length: int, seed: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, int64 [n, length] each, of the held-out end, in order; at most 65,536 bytes of it."""
        n = max(1, min(VALIDATION_TOKENS, self._held - 1) // length)
        tail = self.content[len(self.content) - self._held :][: n * length + 1].astype(np.int64)
        return torch.from_numpy(tail[:-1].reshape(n, length)), torch.from_numpy(tail[1:].reshape(n, length))

    def floor(self, length: int) -> float | None:
        """None: nobody knows the entropy of a text."""
        return None

    @property
    def _held(self) -> int:
        return len(self.content) // HELD_OUT


Corpus = GrammarCorpus | ByteCorpus


def corpus(paths: Sequence[Path], vocabulary: int, length: int) -> Corpus:
    """The text of these files and folders, one after the other, or the grammar if there are none.

    Of a folder every file counts, its subfolders' too, in the order of their paths; what is hidden (".name") is left
    out. A single file is mapped from the disk, several are read into memory with a line's end between two of them.
    vocabulary: ids that the model knows. length: tokens a window. TextError if a path is missing or cannot be read, or
    if there is too little text for windows of that length; ValueError if the model has fewer ids than the corpus.

    >>> from capstone.data import corpus
    >>> corpus([], vocabulary=600, length=64)
    GrammarCorpus(name='grammar', unit='word', ids=600)
    >>> corpus([], vocabulary=256, length=64)
    Traceback (most recent call last):
        ...
    ValueError: grammar: its tokens have 600 ids, and the model knows 256; take a model whose vocabulary is
    600 or more
    """
    found = text(paths, inputs.whole("length", length)) if paths else GrammarCorpus()
    if found.ids > inputs.whole("vocabulary", vocabulary):
        raise ValueError(
            f"{found.name}: its tokens have {found.ids} ids, and the model knows {vocabulary}; "
            f"take a model whose vocabulary is {found.ids} or more"
        )
    return found


def text(paths: Sequence[Path], length: int) -> ByteCorpus:
    """The bytes of files and folders, and its errors, as in `corpus`."""
    files = [file for path in paths for file in _files(inputs.path("text", path))]
    shown = ", ".join(map(str, paths))
    try:
        content = _mapped(files[0]) if len(files) == 1 else _joined(files)
    except OSError as error:
        raise TextError(
            f"text {error.filename or shown}: it cannot be read ({error.strerror}). Give a file that this user may read"
        ) from error
    least = HELD_OUT * (length + 1)
    if len(content) < least:
        fits = len(content) // HELD_OUT - 1
        way_out = f"Give more text, or windows of at most {fits} (--length {fits})" if fits > 0 else "Give more text"
        raise TextError(
            f"text {shown}: {len(content):,} bytes are too short. Windows of {length} bytes need {least:,}, "
            f"of which one in {HELD_OUT} is held out for validation. {way_out}"
        )
    return ByteCorpus(content, f"text of {len(content)} bytes, crc32 {_checksum(content):08x}")


def _files(path: Path) -> list[Path]:
    """The file itself, or a folder's."""
    if not inputs.is_there(path):
        raise TextError(f"text {path}: there is no such file or folder. Give one that is there, or leave it out")
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TextError(f"text {path}: neither a file nor a folder. Give a file of text, or a folder of such files")

    def refuse(error: OSError) -> None:
        raise TextError(f"text {error.filename}: it cannot be read ({error.strerror}). Give a folder that can")

    found: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder, name) for name in names if not name.startswith(".") and Path(folder, name).is_file()]
    if not found:
        raise TextError(f"text {path}: a folder without a file that is not hidden. Give one that holds text")
    return sorted(found)


def _mapped(file: Path) -> np.ndarray:
    with file.open("rb") as opened:
        if not opened.seek(0, os.SEEK_END):  # nothing of no bytes can be mapped
            return np.empty(0, np.uint8)
        return np.memmap(opened, dtype=np.uint8, mode="r")


def _joined(files: Sequence[Path]) -> np.ndarray:
    return np.frombuffer(b"\n".join(file.read_bytes() for file in files), dtype=np.uint8)


def _checksum(content: np.ndarray) -> int:
    value = 0
    for at in range(0, len(content), CHUNK):
        value = zlib.crc32(content[at : at + CHUNK].data, value)
    return value


def _pair(windows: np.ndarray) -> tuple[Tensor, Tensor]:
    drawn = torch.from_numpy(windows)
    return drawn[:, :-1], drawn[:, 1:]
