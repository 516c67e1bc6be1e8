"""Records what FSDP1 adds to units of few and of many tensors; ``__main__`` says how to run it."""
