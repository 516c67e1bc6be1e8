"""Records what saving a checkpoint and carrying weights take; ``__main__`` says how to run it."""
