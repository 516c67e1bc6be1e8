"""Records what calls of the host take beside a GPU; ``__main__`` says how to run it."""
