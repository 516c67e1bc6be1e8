"""Passes of an engine that shards with FSDP1 or FSDP2."""
