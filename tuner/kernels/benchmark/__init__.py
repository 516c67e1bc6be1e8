"""The output heads measured side by side: ``python -m tuner.kernels.benchmark``."""
