"""The types of models that a copy of verl packs, where its workers hold a list of them.

Releases from 0.2 on have no such list. Before, ``check_model_support_rmpad`` raises ``ValueError`` for any
other type as soon as a worker is built with ``use_remove_padding=True``.

Source: copies of verl 0.1, such as Search-R1 at commit a14dc3a: ``models/registry.py``
(``_REOVEPAD_MODELS``: llama, mistral, gemma and qwen2), ``workers/fsdp_workers.py``
(``_build_model_optimizer``, ``_build_critic_model_optimizer``).
"""

from tuner.architectures import model_types
from tuner.inputs.settings import Settings

#: What asks for the list, and what the list is called there.
ASKS = "check_model_support_rmpad model_type"
LIST = "_REOVEPAD_MODELS"

_WORKERS, _REGISTRY = "fsdp_workers", "registry"


def packed_models(settings: Settings) -> tuple[str, ...] | None:
    """The values of ``model_type`` that are packed; None where nothing keeps others from it."""
    has = settings.has_statement
    if has is None or not has(ASKS, _WORKERS) or not has(LIST, _REGISTRY):
        return None
    return tuple(name for name in model_types() if has(f"{LIST} {name}", _REGISTRY))
