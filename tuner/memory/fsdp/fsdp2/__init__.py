"""What FSDP2, torch's ``fully_shard``, does differently from FSDP1."""
