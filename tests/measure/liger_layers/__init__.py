"""Records what layers with Liger's kernels take of the host; ``__main__`` says how to run it."""
