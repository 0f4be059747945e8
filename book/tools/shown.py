"""What a reader sees: a kernel that shows all there is, and where two pages part, in words."""

import contextlib
import inspect
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

PATIENCE_S = 300
"""With what a kernel does besides its cells: a busy machine is no fault of a chapter."""
PLOTLY = "application/vnd.plotly.v1+json"
WIDGET = "application/vnd.jupyter.widget-view+json"  # holds a number that is new in each kernel
KINDS = {"execute_result": "value", "display_data": "display", "error": "error"}
EXCERPT = 300
Piece = tuple[str, dict[str, Any]]


class Kernel:
    """Runs cells as `make execute` does, by nbclient: what stands below one in the end is what a page would store."""

    def __init__(self, folder: Path, limit_s: float):
        self.client = NotebookClient(
            new_notebook(),
            timeout=PATIENCE_S,
            startup_timeout=PATIENCE_S,
            iopub_timeout=PATIENCE_S,
            raise_on_iopub_timeout=True,
            allow_errors=True,
            kernel_name="python3",
            shutdown_kernel="immediate",
            resources={"metadata": {"path": str(folder)}},
            on_cell_executed=lambda execute_reply, **_: setattr(self, "reply", execute_reply["content"]),
        )
        self.over, self.named = "", set()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.client.setup_kernel(env=environment(), stderr=subprocess.DEVNULL))
            show_all_in(self.client)
            self.close = stack.pop_all().close
        self.client.timeout_func, self.limit_s = (lambda _: limit_s), limit_s

    def run(self, name: str, source: str, may_fail: bool) -> tuple[str, str] | None:
        """Run one cell more. How it failed: in a word, and the traceback.

        `named` then are the cells below which something has a name, by which a later one may replace it.
        """
        if self.over:
            self.client.nb.cells.append(new_code_cell())
            return f"did not run: {self.over}", ""
        self.reply = {"status": "ok"}  # of a cell without code there is none
        try:
            self._execute(source)
        except CellTimeoutError:
            self.over = f"{name} ran into the time limit of {self.limit_s:g} s"
        except DeadKernelError:
            self.over = f"the kernel died in {name}"
        names = self.client._display_id_map.values()
        self.named = {at for cells in names for at, outputs in cells.items() if outputs}
        if self.over:
            self.close()
            return self.over, ""
        if self.reply["status"] == "error" and not may_fail:
            return f"stopped by {self.reply['ename']}: {self.reply['evalue']}", "\n".join(self.reply["traceback"])
        return None

    def outputs(self, number: int) -> list[NotebookNode]:
        """What stands below a cell by now."""
        return self.client.nb.cells[number].outputs

    def _execute(self, source: str) -> None:
        self.client.nb.cells.append(cell := new_code_cell(source))
        self.client.execute_cell(cell, len(self.client.nb.cells) - 1)


def environment() -> dict[str, str]:
    """A kernel's. One that takes itself for a test keeps to itself what a program prints."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def show_all_in(client: NotebookClient) -> None:
    """Have the kernel of a client that has started show all there is. RuntimeError if it cannot."""
    code = f"{inspect.getsource(show_all)}\nshow_all(get_ipython().kernel)"
    cell = new_code_cell(f"exec({code!r}, {{'get_ipython': get_ipython}})")
    client.nb.cells.append(cell)  # nbclient puts it in place once it has run
    client.execute_cell(cell, len(client.nb.cells) - 1, store_history=False)
    client.nb.cells.pop()
    if cell.outputs:
        raise RuntimeError(f"a kernel that does not show all: {cell.outputs}")


def show_all(kernel):
    """In the kernel: a cell ends when what it started has ended, and shows all that was written until then.

    What a program prints is read before anything else is shown. A task that failed says so, whoever still holds it.
    """
    import asyncio
    import codecs
    import os
    import select
    import sys
    import threading
    import time
    import weakref
    from concurrent.futures.thread import _threads_queues  # those of a pool wait for work, without end

    from ipykernel.iostream import OutStream

    class Drained(OutStream):
        def drain(self):
            with self.turn:
                while select.select([self._fid], [], [], 0)[0]:
                    super().write(self.decode(os.read(self._fid, 65536)))

        def watch(self):
            while select.select([self._fid], [], []):
                self.drain()

        def write(self, text):
            self.drain_first()
            return super().write(text)

        def flush(self):
            self.drain_first()
            super().flush()

        def drain_first(self):
            if self._is_master_process() and threading.current_thread() is threading.main_thread():
                self.drain()

    streams = sys.stdout, sys.stderr
    for stream in streams:
        stream._should_watch = False
        os.write(stream._original_stdstream_fd, b"\0")  # wakes the thread that has read here, which then ends
        stream.watch_fd_thread.join()
        stream.__class__, stream.turn = Drained, threading.RLock()
        stream.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        threading.Thread(target=stream.watch, daemon=True).start()

    def kept(loop, coroutine, **options):
        tasks.add(task := asyncio.Task(coroutine, loop=loop, **options))
        return task

    def goes_on(thread):
        of_a_cell = getattr(getattr(thread, "_target", None), "__module__", "") == "__main__"
        return thread.is_alive() and (of_a_cell or not thread.daemon)

    async def to_its_end(*args, **options):
        tasks.clear()
        for stream in streams:
            vars(stream).pop("write", None)  # IPython puts one there, and leaves the one that it has found
        before, reply = set(threading.enumerate()), await execute(*args, **options)
        threads = set(threading.enumerate()) - before - set(_threads_queues)
        limit = time.monotonic() + 30  # a server has no end
        while any(map(goes_on, threads)) or not all(each.done() for each in list(tasks)):
            if time.monotonic() > limit:
                break
            await asyncio.sleep(0.01)
        for task in list(tasks):
            if task.done() and task._log_traceback:
                lost = {"message": "Task exception was never retrieved", "exception": task.exception(), "task": task}
                loop.call_exception_handler(lost)
        return reply

    tasks, loop, execute = weakref.WeakSet(), asyncio.get_running_loop(), kernel.do_execute
    loop.set_task_factory(kept)
    kernel.do_execute = to_its_end


def difference(
    stored: Iterable[NotebookNode],
    now: Iterable[NotebookNode],
    sanitize: Callable[[str], str] = str,
    contents: bool = True,
) -> str:
    """Where outputs show something else than the stored ones, or nothing. Without `contents`: where kinds differ.

    >>> from nbformat.v4 import new_output
    >>> out, err = (new_output("stream", name=name, text="done") for name in ("stdout", "stderr"))
    >>> difference([out], [err])
    "gone: stdout 'done'; new: stderr 'done' (stored: stdout; now: stderr)"
    """
    old, new = pieces(stored, sanitize), pieces(now, sanitize)
    kinds, kinds_now = ([kind for kind, _ in each] for each in (old, new))
    if kinds != kinds_now:
        gone, come = Counter(kinds) - Counter(kinds_now), Counter(kinds_now) - Counter(kinds)
        told = [f"gone: {_excerpts(old, gone)}"] * bool(gone) + [f"new: {_excerpts(new, come)}"] * bool(come)
        order = f"stored: {', '.join(kinds) or 'nothing'}; now: {', '.join(kinds_now) or 'nothing'}"
        return f"{'; '.join(told) or 'another order'} ({order})"
    apart = [number for number, (was, here) in enumerate(zip(old, new, strict=True)) if was != here]
    if not (contents and apart):
        return ""
    was, here = ([each[number] for number in apart] for each in (old, new))
    if all(each in was for each in here) and all(each in here for each in was):
        return f"another order: outputs {' and '.join(str(number + 1) for number in apart)} are exchanged"
    return f"output {apart[0] + 1}, {was[0][0]}: {_where(was[0][1], here[0][1])}"


def pieces(outputs: Iterable[NotebookNode], sanitize: Callable[[str], str] = str) -> list[Piece]:
    """Each output's kind and content, in order. What a stream says between two displays is one.

    The two streams have each a way of their own to the page, and so no order between them.
    """
    seen: list[Piece] = []
    for is_text, group in itertools.groupby(outputs, key=lambda output: output.output_type == "stream"):
        if is_text:
            texts = {"stdout": "", "stderr": ""}
            for each in group:
                texts[each.name] += each.text
            seen += [(name, {"text": sanitize(text)}) for name, text in texts.items() if text]
        else:
            seen += [_piece(each, sanitize) for each in group]
    return seen


def _piece(output: NotebookNode, sanitize: Callable[[str], str]) -> Piece:
    kind = KINDS[output.output_type]
    if kind == "error":
        return kind, {"text": sanitize(f"{output.ename}: {output.evalue}")}
    data = {mime: sanitize(each) if isinstance(each, str) else each for mime, each in output.data.items()}
    data |= {mime: each.strip() for mime, each in data.items() if mime.startswith("image/")}
    data |= dict.fromkeys(data.keys() & {WIDGET})
    return f"{kind} ({', '.join(sorted(data))})", data | {"metadata": output.metadata}


def _excerpts(pieces: list[Piece], kinds: Counter[str]) -> str:
    """Those of these kinds that come last, each with how its text begins."""
    left, told = kinds.copy(), []
    for kind, content in reversed(pieces):
        if left[kind]:
            left[kind] -= 1
            text = content.get("text", content.get("text/plain", ""))
            told.insert(0, f"{kind} {text[:EXCERPT]!r}" if text else kind)
    return ", ".join(told)


def _where(old: Any, new: Any, place: str = "") -> str:
    """The first place at which two contents part, and what stands there in each."""
    inner = []
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        inner = [(f"{place}.{key}".lstrip("."), old[key], new[key]) for key in old]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        inner = [(f"{place}[{at}]", *both) for at, both in enumerate(zip(old, new, strict=True))]
    if inner:
        return next(_where(was, here, deeper) for deeper, was, here in inner if was != here)
    if place.startswith("image/"):
        return f"{place} is another picture"
    if isinstance(old, str) and isinstance(new, str):
        parted = (at for at, (was, here) in enumerate(zip(old, new, strict=False)) if was != here)
        start = max(0, next(parted, min(len(old), len(new))) - EXCERPT // 4)
        old, new = old[start:], new[start:]
    return f"{place} differs. Stored: {old!r:.{EXCERPT}} Now: {new!r:.{EXCERPT}}"
