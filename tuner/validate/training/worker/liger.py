"""Liger's layers in the place of transformers', as verl puts them there.

Norms and MLPs of a built model are changed one by one. What rotates queries and keys is a function of the
module that the model comes from; it is replaced for the whole process, and so are the module's classes. Here
the module gets its own back before the next model is built.

Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``_build_module``). Up to 0.7.1 the model's
``forward`` is replaced besides, by one that returns the same logits where no labels are given.
"""

import sys
from importlib import import_module
from typing import Any

_own: dict[str, dict[str, Any]] = {}  # what a module of transformers was before, by its name


def fuse_layers(model: Any) -> None:
    """Change the layers of a model; nothing where Liger has none for its type, as in verl.

    Args:
        model: transformers', not yet sharded.

    Raises:
        ImportError: Liger is not installed, or not for this transformers.
    """
    liger = import_module("liger_kernel.transformers.monkey_patch")
    name = type(model).__module__
    _own.setdefault(name, dict(vars(sys.modules[name])))
    liger._apply_liger_kernel_to_instance(model=model, fused_linear_cross_entropy=False, swiglu=True)


def restore_modules() -> None:
    """Give transformers' modules their own functions and classes back; models built before lose Liger's."""
    for name, before in _own.items():
        vars(sys.modules[name]).update(before)
    _own.clear()
