"""One engine of the rollout, simulated by stretches of steps in which the same sequences run."""
