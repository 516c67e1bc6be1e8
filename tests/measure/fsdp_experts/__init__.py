"""Records what FSDP1 keeps of a card and of the host with experts; ``__main__`` says how to run it."""
