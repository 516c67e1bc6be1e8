"""Reading verl's configuration in a worker, which is a mapping in some releases and an object in others."""

from typing import Any


def configured(config: Any, path: str) -> Any:
    """The value under a path such as ``policy_loss.loss_mode``; None where there is none."""
    for name in path.split("."):
        config = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
        if config is None:
            return None
    return config
