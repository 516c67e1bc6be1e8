"""Rates of products, attention, copies and optimizers by shape, and what the host needs for a layer."""
