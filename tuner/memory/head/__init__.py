"""The output head: what lies between the last hidden states and log-probabilities or values."""
