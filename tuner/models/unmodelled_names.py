"""Models that launches name and whose type is not modelled: their ``config.json`` alone would not help."""

_TYPES = {
    "deepseek-v4": "deepseek_v4",
    "minicpm-o": "minicpmo",
}


def unmodelled_type(name: str) -> str | None:
    """The ``model_type`` of a model by a part of its name; None of one that nobody knows."""
    lower = name.lower()
    return next((model_type for part, model_type in _TYPES.items() if part in lower), None)
