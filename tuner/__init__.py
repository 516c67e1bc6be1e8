"""Performance-tuning advisor for reinforcement-learning post-training of language models."""

__version__ = "0.2.0rc1"
