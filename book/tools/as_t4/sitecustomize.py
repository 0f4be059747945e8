"""Torch takes this machine's GPU for a T4, as Colab lends it: ``make t4`` runs notebooks so, on any newer GPU.

Python imports this module first wherever its folder is on ``PYTHONPATH``, so ranks and other children have it, too.
What torch asks about is answered as a T4 would (compute capability 7.5, 16 GB, 40 multiprocessors), and no more memory
can be had. Not pretended: kernels are made for the real GPU, which could load no others, so that their registers and
shared memory are its own; and what torch's C++ asks the driver itself, as scaled_dot_product_attention does. For these
ask a virtual T4 (`compile_lab.virtual_gpu`).
"""

import importlib.abc
import importlib.util
import sys

T4 = {
    "name": "Tesla T4",
    "major": 7,
    "minor": 5,
    "multi_processor_count": 40,
    "total_memory": 15_828_320_256,
    "L2_cache_size": 4 << 20,
    "shared_memory_per_block_optin": 64 << 10,
    "shared_memory_per_multiprocessor": 64 << 10,
    "max_threads_per_multi_processor": 1024,
}
"""What differs, by torch's names (*CUDA C++ Programming Guide*, compute capability 7.5; the T4's data sheet)."""


class Properties:
    """A T4's, and the real GPU's where they are the same or nothing depends on them."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return T4[name] if name in T4 else getattr(self._real, name)


def as_t4(cuda):
    """`torch.cuda` answers for a T4. What it says of the real GPU is ``cuda.get_device_capability.real``."""
    properties = cuda.get_device_properties

    def capability(device=None):
        return T4["major"], T4["minor"]

    def real_capability(device=None):  # torch's own would ask for the properties, and be answered for a T4
        real = properties(device)
        return real.major, real.minor

    capability.real = real_capability
    cuda.get_device_properties = lambda device=None: Properties(properties(device))
    cuda.get_device_capability = capability
    cuda.get_device_name = lambda device=None: T4["name"]
    # Once CUDA is started, and not before: a process that has asked for a GPU must not be forked.
    cuda._lazy_call(lambda: cuda.set_per_process_memory_fraction(T4["total_memory"] / properties(0).total_memory, 0))


def made_for_the_real_one(interfaces):
    """Inductor's kernels are still made for the GPU that has to load them, or for a virtual one that answers by now."""
    import torch

    def capability(device=None):
        answers = torch.cuda.get_device_capability
        major, minor = getattr(answers, "real", answers)(device)
        return 10 * major + minor

    interfaces.CudaInterface.get_compute_capability = staticmethod(capability)


AFTER = {"torch.cuda": as_t4, "torch._dynamo.device_interface": made_for_the_real_one}


class Finder(importlib.abc.MetaPathFinder):
    """Changes each of these modules when it has been imported."""

    def find_spec(self, name, path, target=None):
        if name not in AFTER:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            AFTER[name](module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
