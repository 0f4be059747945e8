"""Chapter 04, Inductor: from a graph to kernels."""

NUMBER = "04"
