"""Times AdamW and clipping on one thread of the host; ``__main__`` says how to run it."""
