"""Kernels that vLLM compiles while it generates, because no batch before had such a size."""
