"""A training engine on the device, and its passes measured."""
