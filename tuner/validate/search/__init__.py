"""The search part: the largest micro-batch that really fits."""
