"""python hostile_runs.py FOLDER    runs the command for each case that FOLDER/cases.json names, several at once

torch is imported once: the command and its worker are forks of this process, and only the first part is asked. Of each
case it leaves ``result.json``: status, output, and who still runs when the command has ended.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from pathlib import Path

import torch
import torch._dynamo  # once, before the forks
from hostile import HOSTILE

from compile_lab.report import __main__ as command
from compile_lab.report import captured, processes, supervisor, worker

AT_ONCE = 4
PARTS = ("trace", "rates")
ADOPTS = 36


class Forked:
    """What `subprocess.Popen` is to the supervisor: a fork that becomes the worker."""

    def __init__(self, arguments):
        ours, theirs = zip(os.pipe(), os.pipe(), strict=True)
        self.returncode, self.pid = None, os.fork()
        if not self.pid:
            self.work(arguments[-1], theirs)
        for pipe in theirs:
            os.close(pipe)
        self.stdout, self.stderr = (os.fdopen(pipe, "rb", buffering=0) for pipe in ours)

    def work(self, asked, pipes):
        os.setsid()
        for number in supervisor.STOP_SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), *pipes)):
            os.dup2(source, target)
        os.closerange(3, 256)
        worker.main(asked)

    def poll(self):
        if self.returncode is None and (status := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(status[1])
        return self.returncode


def run(folder, case):
    """The command, in this process: a fork that is thrown away."""
    os.chdir(folder)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream)
    ctypes.CDLL(None).prctl(ADOPTS, 1)  # whoever outlives the command is seen here
    supervisor.start = Forked
    supervisor.GRACE_S, supervisor.MOST_PROCESSES, supervisor.MOST_ANSWERED = 3.0, 40, 2_000_000
    captured.report_parts = worker.report_parts = lambda options: PARTS
    output = "pages/out.html" if Path("pages").exists() else "out.html"
    status = command.main(["hostile.py:make", "-o", output, *case.arguments])
    sys.stdout.flush(), sys.stderr.flush()
    left = [each.number for each in processes.below(os.getpid())]
    result = {
        "status": status,
        "left": left,
        "threads": [type(each).__name__ for each in threading.enumerate()],
    }
    Path("result.json").write_text(json.dumps(result))


def main(root):
    waiting, running = json.loads((root / "cases.json").read_text()), {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            folder, name = waiting.pop(0)
            if not (pid := os.fork()):
                try:
                    run(root / folder, HOSTILE[name])
                finally:
                    os._exit(0)
            running[pid] = folder
        running.pop(os.wait()[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]).resolve())
