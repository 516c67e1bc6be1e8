"""Checks of the models that run beside the trainer: reward models and teachers."""
