"""Which release of an engine, and of transformers, is the first that knows a type of model."""
