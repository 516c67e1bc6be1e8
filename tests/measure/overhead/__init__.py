"""Records what a GPU holds beside a job's tensors; ``__main__`` says how to run it."""
