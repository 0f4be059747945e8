"""Code that does to its own process what nobody expects of a model: the cases, each with what has to become of it."""

from dataclasses import dataclass

PAGE, EITHER = 0, None
"""A whole page; a whole page, or status 2 with words."""

SOURCE = """
import ctypes, itertools, os, shutil, signal, subprocess, sys, threading, time
import torch
from torch import nn
{top}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(3, 1), 0
    def forward(self, x):
        {forward}
        return self.linear(x).sum()
def make():
    {make}
    return Model(), torch.ones(4, 3)
"""


@dataclass(frozen=True)
class Hostile:
    """Lines for the import, for ``make()`` and for the forward; ``said`` is a pattern of the message for status 2."""

    top: str = ""
    make: str = "pass"
    forward: str = "pass"
    status: int | None = 2
    said: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return SOURCE.format(top=self.top, make=indented(self.make, 4), forward=indented(self.forward, 8))


def indented(lines: str, by: int) -> str:
    return f"\n{' ' * by}".join(lines.splitlines())


AT = r", at hostile\.py, line \d+; \w"
SOON = ("--limit-s", "3")  # enough for what comes before the code that does not end
OWN_LIMIT = r"took longer than 3 s" + AT
FROM_OUTSIDE = r"has not come on for \d s, and could not be interrupted" + AT
LOOP = "while True: pass"
DEAF = "while True:\n    try: time.sleep(9)\n    except BaseException: pass"
GROWS = "kept = []\nwhile True: kept.append(bytearray(50_000_000))"
MOST = ("--limit-gb", "1.5")
ESCAPED = "subprocess.Popen(['sleep', '300'], start_new_session=True, env={}, stdout=-3, stderr=-3)"
DAEMON = "if not os.fork():\n    os.setsid()\n    if not os.fork(): time.sleep(300)\n    os._exit(0)"
BACKWARD = """
class Back(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g): {does}
"""
THROUGH = "x = Back.apply(self.linear(x))\nreturn x.sum()"

HOSTILE = {
    # It ends.
    "exit at import": Hostile("sys.exit(0)", said="cannot be imported: SystemExit: 0" + AT),
    "exit in forward": Hostile(forward="sys.exit(0)", said="SystemExit: 0" + AT),
    "exit in the second forward": Hostile(forward="self.calls += 1\nif self.calls > 1: sys.exit(0)", status=PAGE),
    "exit in a hook of the backward": Hostile(
        forward="x = self.linear(x)\nx.register_hook(lambda g: sys.exit(0))\nreturn x.sum()",
        said="backward of the loss raised SystemExit: 0" + AT,
    ),
    "exit in the optimizer's step": Hostile(
        "class Opt(torch.optim.SGD):\n    def step(self, closure=None): sys.exit(0)",
        "m = Model()\nreturn m, torch.ones(4, 3), Opt(m.parameters(), lr=0.1)",
        status=PAGE,
    ),
    "exit in a thread": Hostile("threading.Thread(target=sys.exit).start()", status=PAGE),
    "exit by what make returns": Hostile(
        "class Pair(tuple):\n    def __len__(self): sys.exit(0)", "return Pair((Model(), 1))", said="SystemExit: 0" + AT
    ),
    "exit with a million words": Hostile("sys.exit('word ' * 1_000_000)", said="SystemExit: word word" + ".*" + AT),
    "_exit in forward": Hostile(forward="os._exit(0)", said=r"the first forward .* os\._exit\(0\)" + AT),
    "_exit in a thread": Hostile("threading.Timer(0.1, os._exit, [5]).start()", LOOP, said=r"os\._exit\(5\)"),
    "_exit that nobody sees": Hostile("ctypes.CDLL(None)._exit(0)", said="ended with status 0 and no report"),
    "Control-C of its own": Hostile(make="raise KeyboardInterrupt", said=r"make\(\) came KeyboardInterrupt" + AT),
    "an exception that is none": Hostile(
        "class Odd(BaseException):\n    def __str__(self): raise self", forward="raise Odd", said="Odd" + AT
    ),
    "an error with colours": Hostile(make="raise ValueError('\\x1b[31mred\\x07')", said=r"ValueError: \[31mred" + AT),
    # It is killed.
    "SIGKILL": Hostile(make="os.kill(os.getpid(), signal.SIGKILL)", said="was killed by SIGKILL; .*memory is short"),
    "SIGHUP to its group": Hostile(forward="os.killpg(0, signal.SIGHUP)", said="was killed by SIGHUP" + AT),
    "a real-time signal": Hostile(make="os.kill(os.getpid(), signal.SIGRTMIN + 2)", said=r"killed by signal \d\d"),
    "SIGSTOP": Hostile("os.kill(os.getpid(), signal.SIGSTOP)", said="stopped itself with a signal"),
    "a segfault": Hostile(forward="ctypes.string_at(0)", said="the first forward .* SIGSEGV" + AT),
    "all of its processor time": Hostile(
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 2))", LOOP, said="SIGXCPU|SIGKILL"
    ),
    "the caller is told to stop": Hostile(
        make="os.kill(os.getppid(), signal.SIGTERM)\n" + LOOP, status=143, said="SIGTERM"
    ),
    # It does not end.
    "endless in forward": Hostile(forward=LOOP, said="the first forward " + OWN_LIMIT, arguments=SOON),
    "endless in the backward": Hostile(
        BACKWARD.format(does="\n        while True: pass"),
        forward=THROUGH,
        said="the first backward " + OWN_LIMIT,
        arguments=SOON,
    ),
    "endless in what is asked of a model": Hostile(
        "def parameters(self, recurse=True):\n    while True: pass",
        "Model.parameters = parameters",
        said=FROM_OUTSIDE,
        arguments=SOON,
    ),
    "endless, and deaf to exceptions": Hostile(make=DEAF, said=FROM_OUTSIDE, arguments=SOON),
    "endless, and deaf to the alarm": Hostile(
        make="signal.signal(signal.SIGALRM, signal.SIG_IGN)\n" + LOOP, said=FROM_OUTSIDE, arguments=SOON
    ),
    "endless, and deaf to every signal": Hostile(
        make="for s in signal.valid_signals() - {9, 19}: signal.signal(s, signal.SIG_IGN)\n" + LOOP,
        said="could not be interrupted",
        arguments=SOON,
    ),
    "endless, with every signal blocked": Hostile(
        make="signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n" + LOOP,
        said="longer than 3 s|could not be interrupted",
        arguments=SOON,
    ),
    "endless in C": Hostile(make="sum(itertools.repeat(0))", said=FROM_OUTSIDE, arguments=SOON),
    "endless printing": Hostile(make="while True: print('x' * 1000)", said=OWN_LIMIT, arguments=SOON),
    "another clock": Hostile("time.monotonic = lambda: 0.0", LOOP, said="could not be interrupted", arguments=SOON),
    "an alarm of its own": Hostile(make="signal.alarm(1)\ntime.sleep(1.5)", status=PAGE),
    "a question to the keyboard": Hostile(make="input()", said="EOFError: .*" + AT + ".*input"),
    "all of its standard input": Hostile("sys.stdin.read()", status=PAGE),
    # It leaves something running.
    "a thread that stays": Hostile("threading.Thread(target=time.sleep, args=[300]).start()", status=PAGE),
    "a process in a session of its own": Hostile(ESCAPED, status=PAGE),
    "a daemon, and no end": Hostile(make=DAEMON + "\n" + LOOP, said=OWN_LIMIT, arguments=SOON),
    "a pool of processes": Hostile(
        "import multiprocessing", "make.pool = multiprocessing.get_context('fork').Pool(2)", status=PAGE
    ),
    "a fork in forward": Hostile(forward="self.calls or os.fork()\nself.calls += 1", status=PAGE),
    "a fork that goes on alone": Hostile(make="if os.fork(): os._exit(0)", said=r"os\._exit\(0\)" + AT),
    "forks without number": Hostile(
        make="for _ in range(7): os.fork()\ntime.sleep(600)", said=r"had started \d+ processes"
    ),
    "an exit handler that waits": Hostile("import atexit; atexit.register(time.sleep, 300)", status=PAGE),
    "an exit handler that writes": Hostile(
        "import atexit; atexit.register(lambda: open('out.html', 'w').write('mine'))", status=PAGE
    ),
    # It takes all there is.
    "all memory": Hostile(make=GROWS, said=r"held [\d.]+ GB of memory, and 1.5 GB are its limit" + AT, arguments=MOST),
    "all memory, by its forks": Hostile(
        make="for _ in range(3): os.fork()\nx = bytearray(400_000_000)\ntime.sleep(600)",
        said="GB of memory",
        arguments=MOST,
    ),
    "a tensor that no machine holds": Hostile(make="torch.empty(10**15)", said="RuntimeError: .*allocate" + ".*" + AT),
    "recursion": Hostile(make="make()", said="RecursionError" + ".*" + AT),
    "recursion without a limit": Hostile(
        "sys.setrecursionlimit(10**9)", forward="self(x)", said="SIGSEGV|GB of memory", arguments=MOST
    ),
    "a flood past Python": Hostile("for _ in range(200): os.write(2, b'flood ' * 20_000)", status=PAGE),
    "a name without end": Hostile("Model = type('x' * 3_000_000, (), {})\n", "return 1", said="returned int"),
    "an answer without end": Hostile(make="Model.__name__ = 'x' * 3_000_000", said="answered with more than 2 MB"),
    # It changes what is around it.
    "descriptors 0 to 2 closed": Hostile("os.closerange(0, 3)", status=PAGE),
    "every descriptor another file": Hostile(
        "os.closerange(3, 500)\nmine = [open(f'mine.{n}', 'w') for n in range(20)]",
        said="closed the pipe to the report",
    ),
    "noise on every descriptor": Hostile(
        'for fd in range(20):\n    try: os.write(fd, b\'{"report": 1, "summary": 2}\\n{\\n[]\\n"phase"\\n\')\n'
        "    except OSError: pass",
        status=PAGE,
    ),
    "another folder": Hostile("os.chdir('/')", status=PAGE),
    "a folder that is gone": Hostile("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", status=EITHER),
    "no environment": Hostile("os.environ.clear()", status=PAGE),
    "no modules": Hostile(make="r = Model(), torch.ones(4, 3)\nsys.modules.clear()\nreturn r", status=EITHER),
    "no builtins": Hostile("import builtins; builtins.print = builtins.isinstance = None", status=EITHER),
    "another json": Hostile("import json; json.dumps = json.loads = None", status=EITHER),
    "a tensor without a shape": Hostile("torch.Tensor.shape = property(lambda self: 1 / 0)", status=EITHER),
    "no handler of exceptions": Hostile(
        "sys.excepthook = sys.unraisablehook = None", "1 / 0", said="ZeroDivisionError: .*" + AT
    ),
    "no more files": Hostile("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", status=EITHER),
    "the report's folder is gone": Hostile("shutil.rmtree('pages')", said="pages|could not be written"),
    "the report's file is a folder": Hostile(
        "os.remove('out.html'); os.mkdir('out.html')", said="could not be written"
    ),
    "colours and a moved cursor": Hostile("print('\\x1b[2J\\x1b[31mred\\x07\\rbegin')", status=PAGE),
}
