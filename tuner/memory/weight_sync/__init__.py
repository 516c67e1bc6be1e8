"""Carrying new weights to the rollout engine: tensors, buckets, and a process that receives them."""
