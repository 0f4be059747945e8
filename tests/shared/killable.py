"""python killable.py PROGRAM    forks a run of ``PROGRAM.train`` for each line ``moment|nth|options``

Imports are made once. A run may kill itself at the nth time that a moment comes; each step that it begins is told, and
after one more line its end.
"""

import importlib
import itertools
import os
import signal
import sys
from pathlib import Path

from capstone.log import TrainingLog, read_log
from mini_model import loop
from mini_model.model import CONFIGS, GPTConfig

TINY = GPTConfig(vocabulary=600, context=16, dim=16, layers=2, heads=2, tied_head=True)


def told(path: Path) -> list[tuple]:
    """What a log says of its steps, save for their speed."""
    return [(step.step, step.loss, step.lr, step.gradient_norm) for step in read_log(path)[1]]


def dies(owner, name, nth, before=None):
    original, calls = getattr(owner, name), itertools.count(1)

    def called(*arguments):
        mine = next(calls) == nth
        if mine and before:
            before(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        found = original(*arguments)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, called)


def torn(log, steps):
    log.file.write(b'{"step": 9, "lo')
    log.file.flush()


def nothing(*_):
    pass


MOMENTS = {
    "a line of the log is half written": lambda nth: dies(TrainingLog, "add", nth, torn),
    "a line of the log is there": lambda nth: dies(TrainingLog, "add", nth),
    "the checkpoint is written, and not yet in place": lambda nth: dies(Path, "replace", nth, nothing),
    "the checkpoint is in place": lambda nth: dies(Path, "replace", nth),
    "the log is cut": lambda nth: dies(TrainingLog, "_write", nth, nothing),
    "none": nothing,
}


def announced(settings, step, rate=loop.learning_rate):
    os.write(1, b"%d\n" % step)
    return rate(settings, step)


if __name__ == "__main__":
    CONFIGS["tiny"], loop.learning_rate = TINY, announced
    train = importlib.import_module(f"{sys.argv[1]}.train")
    while line := sys.stdin.readline().strip():
        moment, nth, options = line.split("|")
        if not (child := os.fork()):
            MOMENTS[moment](int(nth))
            os._exit(train.main(options.split()))
        os.write(1, b"is %d\n" % child)
        sys.stdin.readline()
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
