"""Records what layers of Megatron-Core take of the host and keep; ``__main__`` says how to run it."""
