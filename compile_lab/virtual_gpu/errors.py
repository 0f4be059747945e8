"""What goes wrong in the child process, said in the parent."""


class VirtualGPUError(RuntimeError):
    """A virtual GPU could not do what it was asked.

    The message says what and what to do; ``kind`` is the name of the child's exception ("" if it raised none) and
    ``traceback`` its traceback as text.
    """

    def __init__(self, message: str, kind: str = "", traceback: str = ""):
        super().__init__(message)
        self.kind, self.traceback = kind, traceback


class UnsupportedKernel(RuntimeError):
    """A generated kernel uses what the interpreter cannot do; the message names the kernel's need and the way out."""
