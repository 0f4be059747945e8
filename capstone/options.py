"""What a training is asked for: checked at once, so that no run ends after hours over a word."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from mini_model import arguments, inputs
from mini_model.loop import Settings
from mini_model.model import CONFIGS, GPTConfig, config
from mini_model.train import MODES

from .steps import DECAY, LR

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
COMPILE = ("none", *(mode for mode in MODES if mode != "eager"))
PATTERNS = ("ddp", "fsdp", "cp", "ep")
RATES = {"mini": 8e-3}
"""Peak learning rates; that of every other size is GPT-2's."""
COMMAND = "torchrun --nproc-per-node 2 -m capstone.train --parallel fsdp"


@dataclass(frozen=True)
class TrainingOptions:
    """A training run: what decides its result, how it is computed, and what it leaves behind.

    ValueError, or TypeError, for what does not go, or not together.

    >>> from capstone.options import TrainingOptions
    >>> TrainingOptions(steps=500).settings
    Settings(config='mini', steps=500, batch=32, lr=0.008, seed=0)
    >>> TrainingOptions(budget=0.5)
    Traceback (most recent call last):
        ...
    ValueError: budget 0.5 is what the compiler may keep, and nothing is compiled: add a mode of compile
    (--compile default), or take checkpointing instead
    """

    config: str = "mini"
    """A name of `mini_model.model.CONFIGS`. Its vocabulary stays as it is: of a text it uses 256 ids."""
    steps: int = Settings.steps
    batch: int = Settings.batch
    """Windows a step, over all ranks."""
    length: int | None = None
    """Tokens a window; None: the model's context."""
    lr: float | None = None
    """The peak of `mini_model.loop.learning_rate`; None: what suits the config."""
    seed: int = 0
    clip: float = 1.0
    """The largest norm of all gradients together; larger ones are scaled down to it. 0: never."""
    decay: float = DECAY
    """AdamW's weight decay, of matrices and embeddings."""
    dtype: str = "float32"
    """Of the computation, by autocast; weights and moments are float32."""
    text: tuple[Path, ...] = ()
    """Files and folders to train on, by bytes; none: the grammar. A single path will do."""

    compile: str = "none"
    """A mode of torch.compile. On many ranks each block is compiled, else model and loss as one graph."""
    budget: float | None = None
    """The share, 0 to 1, of the activations' bytes that the compiler may keep; the rest is computed again."""
    checkpointing: bool = False
    """Of each block only the input is kept, and the backward runs the block again."""
    device: str = "cpu"
    parallel: str | None = None
    """"ddp", "fsdp", "cp" or "ep", on the ranks that torchrun starts."""

    checkpoint: Path | None = None
    """A file, on many ranks a folder, from which the same run continues."""
    every: int = 100
    """Steps between checkpoints, and so the most that a killed run loses."""
    log: Path | None = None

    def __post_init__(self) -> None:
        shape = config(self.config)
        self.settings  # noqa: B018  checks what is in it
        inputs.whole("every", self.every)
        inputs.whole("length", self.window, 1, shape.context)
        for name in ("clip", "decay"):
            if getattr(self, name) != 0:
                inputs.positive(name, getattr(self, name))
        inputs.one_of("dtype", self.dtype, DTYPES)
        inputs.one_of("compile", self.compile, COMPILE)
        inputs.instance("checkpointing", self.checkpointing, bool)
        self._check_budget()
        if self.parallel is not None:
            inputs.one_of("parallel", self.parallel, PATTERNS)
        for name in ("checkpoint", "log"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, inputs.path(name, getattr(self, name)))
        paths = self.text if isinstance(self.text, tuple | list) else (self.text,)
        object.__setattr__(self, "text", tuple(inputs.path("text", path) for path in paths))
        object.__setattr__(self, "device", inputs.device(self.device))

    def _check_budget(self) -> None:
        if self.budget is None:
            return
        if isinstance(self.budget, bool) or not isinstance(self.budget, int | float) or not 0 <= self.budget <= 1:
            raise ValueError(f"budget is {inputs.shown(self.budget)}; it must be a number from 0 to 1")
        if self.compile == "none":
            raise ValueError(
                f"budget {self.budget} is what the compiler may keep, and nothing is compiled: add a mode of compile "
                "(--compile default), or take checkpointing instead"
            )
        if self.checkpointing:
            raise ValueError("budget and checkpointing both say what is computed again: take one of them")

    @property
    def shape(self) -> GPTConfig:
        return config(self.config)

    @property
    def window(self) -> int:
        """Tokens."""
        return self.shape.context if self.length is None else self.length

    @property
    def settings(self) -> Settings:
        """What `mini_model.loop` needs of it."""
        lr = RATES.get(self.config, LR) if self.lr is None else self.lr
        return Settings(self.config, self.steps, self.batch, lr, self.seed)

    def run(self, data: str) -> dict[str, str | int | float]:
        """What a run shares with a checkpoint or a log to go on with it. data: the corpus's name."""
        more = {"length": self.window, "clip": self.clip, "decay": self.decay, "dtype": self.dtype, "data": data}
        return asdict(self.settings) | more


def parsed(words: Sequence[str] | None = None) -> TrainingOptions:
    """The options of a command line. Ends the program, with the reason, for what does not go, or not together.

    >>> from capstone.options import parsed
    >>> options = parsed("--device cpu --config gpt2-124m --length 256 --steps 50".split())
    >>> options.window, options.settings.lr
    (256, 0.0006)
    """
    parser = _parser()
    found = vars(parser.parse_args(words))
    try:
        return TrainingOptions(**found)
    except ValueError as error:
        parser.error(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m capstone.train",
        description="Train a GPT on the grammar, or on any text, by bytes.",
        epilog="The same command continues from its checkpoint, on a CPU in float32 with the losses of one "
        f"uninterrupted run. On many devices: {COMMAND}",
    )
    default = {each.name: each.default for each in fields(TrainingOptions)}
    parser.set_defaults(**default | {"device": "cuda" if torch.cuda.is_available() else "cpu"})
    add = parser.add_argument
    add("--config", choices=CONFIGS, help="the model; default: %(default)s")
    add("--steps", type=arguments.count, help="default: %(default)s")
    add("--batch", type=arguments.count, help="windows a step, over all ranks; default: %(default)s")
    add("--length", type=arguments.count, help="tokens a window; default: the model's context")
    add("--lr", type=arguments.rate, help=f"peak learning rate; default: {LR}, or {RATES['mini']} for mini")
    add("--seed", type=arguments.seed, help="of weights and data; default: %(default)s")
    add("--clip", type=arguments.amount, help="largest norm of the gradients, 0 for any; default: %(default)s")
    add("--decay", type=arguments.amount, help="weight decay of matrices and embeddings; default: %(default)s")
    add("--dtype", choices=DTYPES, help="of the computation; weights stay float32; default: %(default)s")
    add("--text", type=Path, nargs="+", metavar="PATH", help="files or folders, by bytes; default: the grammar")
    add("--compile", choices=COMPILE, help="a mode of torch.compile; default: %(default)s")
    add("--budget", type=arguments.amount, metavar="SHARE", help="compiled: activations that may be kept, 0 to 1")
    add("--checkpointing", action="store_true", help="keep each block's input only, and run it again")
    add("--device", type=arguments.device, help="default: a GPU, if there is one")
    add(
        "--parallel",
        choices=PATTERNS,
        help="under torchrun: ddp, or slices of parameters and batch, sequence or experts",
    )
    add("--checkpoint", type=Path, metavar="PATH", help="write it here, and continue from it if it is there")
    add("--every", type=arguments.count, metavar="N", help="steps between checkpoints; default: %(default)s")
    # torchrun would take "--log" for an option of its own, cut short, although it stands behind the module's name.
    add("--log-file", type=Path, dest="log", metavar="FILE", help="a line of JSON a step")
    return parser
