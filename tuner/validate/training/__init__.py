"""The training-step part: passes over the sharded model, as configured and with every proposal."""
