"""Records the peak GPU memory of verl's own FSDP engine, pass by pass; ``__main__`` says how to run it."""
