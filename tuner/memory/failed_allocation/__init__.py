"""Which tensor a failed allocation was asked for."""
