"""Records what attention over a packed row takes by how transformers is asked for it; see ``__main__``."""
