"""One module for each ``model_type``, under its name."""
