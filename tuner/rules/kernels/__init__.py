"""Rules with the letters KRN: how the output head and the layers are computed."""
