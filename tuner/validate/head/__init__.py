"""The output-head part: log-probabilities and entropy by every implementation."""
