"""The shapes that are measured where none are named: rows x hidden size x vocabulary of language models."""

DEFAULT_SHAPES = (
    "4096x3584x152064",
    "16384x3584x152064",
    "16384x2048x128256",
    "16384x896x151936",
    "8192x4096x128256",
    "16384x5120x152064",
    "2048x7168x129280",
)
