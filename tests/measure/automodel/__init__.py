"""Peaks of a training step as NeMo-RL makes it with NeMo Automodel; ``__main__`` says how to run it."""
