"""Records how long vLLM generates batches of different lengths; ``__main__`` says how to run it."""
