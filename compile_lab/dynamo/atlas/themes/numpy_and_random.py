"""NumPy's functions and arrays, which Dynamo runs as tensors, and their random numbers."""

import numpy as np
import torch

from ..entries import cures, no_cure, trigger


def array() -> tuple[np.ndarray]:
    """Three numbers of NumPy's."""
    return (np.arange(1.0, 4.0),)


@trigger("GB0105", trace_numpy=False)
def to_numpy_untraced(x):
    return torch.from_numpy(x.numpy() + 1)


@cures(to_numpy_untraced, trace_numpy=True)
def to_numpy_traced(x):
    return torch.from_numpy(x.numpy() + 1)


@trigger("GB0231", array, trace_numpy=False)
def from_numpy_untraced(x):
    return torch.from_numpy(x) + 1


@cures(from_numpy_untraced, trace_numpy=True)
def from_numpy_traced(x):
    return torch.from_numpy(x) + 1


@trigger("GB0293", trace_numpy=False)
def numpy_function_untraced(x):
    return x + float(np.sqrt(4.0))


@cures(numpy_function_untraced)
def numbers_own_root(x):
    return x + 4.0**0.5


@trigger("GB0294")
def sum_by_numpy(x):
    return x + np.nansum(x.numpy())


@cures(sum_by_numpy)
def sum_by_torch(x):
    return x + x.nansum()


@trigger("GB0250", array)
def array_of_objects(x):
    return x.astype(object)


no_cure(array_of_objects, "objects are no numbers")


@trigger("GB0157", array)
def flags_of_an_array(x):
    return x + 1 if x.flags.c_contiguous else x


@cures(flags_of_an_array)
def tensors_contiguity(x):
    return x + 1 if torch.from_numpy(x).is_contiguous() else x


@trigger("GB0158", array)
def bytes_of_an_array(x):
    return x.tobytes()


no_cure(bytes_of_an_array, "bytes are values, which exist only when the graph has run: take them outside")


@trigger("GB0159", array)
def version_of_an_array(x):
    return x.__version__


no_cure(version_of_an_array, "eager refuses too: an array has no version")


@trigger("GB0185", lambda: (np.array(["a", "b"]),))
def array_of_text(x):
    return len(x)


no_cure(array_of_text, "text is no tensor: hand over a list")


@trigger("GB0298", array, use_numpy_random_stream=True)
def numpys_random_numbers(x):
    return np.random.uniform(size=3) * 0 + x


no_cure(numpys_random_numbers, "NumPy's stream of random numbers is outside the graph: draw them before the call")


@trigger("GB0290")
def method_of_a_numpy_function(x):
    return x + np.add.reduce([1, 2])


@cures(method_of_a_numpy_function)
def sum_in_python(x):
    return x + sum([1, 2])


@trigger("GB7650", lambda: (torch.ones(3), torch.Generator()))
def state_of_a_generator(x, generator):
    return x + 1, generator.get_state()


no_cure(state_of_a_generator, "a generator's state is outside the graph: read it before the call")


@trigger("GB0007")
def random_state(x):
    return x + 1, torch.get_rng_state()


no_cure(random_state, "a generator's state is outside the graph: read it before the call")


@trigger("GB0007")
def reseed(x):
    torch.manual_seed(3)
    return x + torch.rand(3)


no_cure(reseed, "the generator's state is outside the graph: seed before the call")


@trigger("GB0294")
def numpys_generator(x):
    return x + float(np.random.default_rng(3).random())


no_cure(numpys_generator, "NumPy's stream of random numbers is outside the graph: draw them before the call")
