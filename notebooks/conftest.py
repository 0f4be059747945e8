"""nbval compares with what the page stores: kernels show that face of an output."""

import os

os.environ["COMPILE_LAB_PUBLISH"] = "1"
