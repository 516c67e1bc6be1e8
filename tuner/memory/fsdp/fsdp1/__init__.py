"""What FSDP1, torch's ``FullyShardedDataParallel``, does differently from FSDP2."""
