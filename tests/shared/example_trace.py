"""A trace of a GPU with a known answer, as torch's profiler writes it."""

from compile_lab.measure.trace import read


def chrome(kind, name, start, taken, thread=7, **args):
    return {"ph": "X", "cat": kind, "name": name, "ts": start, "dur": taken, "pid": 3, "tid": thread, "args": args}


SEEN = read(
    {
        "baseTimeNanoseconds": 5,
        "traceEvents": [
            chrome("kernel", "late", 500, 9, **{"correlation": 2, "External id": 12}),
            chrome("kernel", "early", 300, 8, **{"correlation": 1, "External id": 12}),
            chrome("kernel", "triton", 600, 7, **{"correlation": 3}),
            chrome("kernel", "nobody's", 700, 6),
            chrome("gpu_memset", "Memset", 650, 2, **{"correlation": 4, "External id": 13}),
            chrome("cpu_op", "aten::linear", 100, 90, **{"External id": 11}),
            chrome("cpu_op", "aten::addmm", 110, 70, **{"External id": 12}),
            chrome("cpu_op", "aten::zero_", 200, 9, **{"External id": 13}),
            chrome("user_annotation", "forward", 90, 200, **{"External id": 14}),
            chrome("cuda_runtime", "cudaLaunchKernel", 120, 5, 9, **{"correlation": 1, "External id": 12}),
            chrome("cuda_driver", "cuLaunchKernelEx", 130, 5, **{"correlation": 2, "External id": 12}),
            chrome("cuda_driver", "cuLaunchKernel", 195, 5, **{"correlation": 3}),
            chrome("cuda_runtime", "cudaDeviceSynchronize", 900, 5),
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": 120, "pid": 3, "tid": 9, "id": 1},
            {"ph": "i", "name": "Record Window End", "ts": 990, "pid": "", "tid": ""},
        ],
    }
)
