"""How far a setting or the sequences may grow while a job still fits."""
