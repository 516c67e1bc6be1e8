"""Records what vLLM's start takes of a GPU; ``__main__`` says how to run it."""
