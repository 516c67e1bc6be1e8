"""Records what Megatron-Core holds on a GPU; ``__main__`` says how to run it."""
