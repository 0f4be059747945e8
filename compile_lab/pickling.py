"""What a reader hands over, on its way to another process: by cloudpickle, and by name what torch alone can make."""

import importlib
import io
from typing import Any

import cloudpickle

from ._torch.custom_ops import found_at, place_of


class Pickler(cloudpickle.Pickler):
    """cloudpickle, with torch's operators (``torch.ops.aten.mm``, and ``torch.ops`` itself) and settings by name."""

    def reducer_override(self, thing: Any) -> Any:
        if (place := place_of(thing)) is not None:
            return found_at, (place,)
        if type(thing).__name__ == "ConfigModuleInstance":  # as torch._dynamo.config: a module of a kind
            return importlib.import_module, (thing.__name__,)
        return super().reducer_override(thing)


def dumps(thing: Any) -> bytes:
    """For ``pickle.loads`` in a process that has torch and this package."""
    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()
