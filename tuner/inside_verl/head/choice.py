"""Which forward pass a model gets, in place of verl's choice among its fused heads."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from tuner.inside_verl.head.forward import with_head
from tuner.inside_verl.verl_process import say
from tuner.language import _

MARK = "__tuner_head__"  # on a forward pass that has the head


def give_head(model: Any) -> None:
    """Gives the class of a model, or the model where it has a forward pass of its own, one with the head.

    Liger puts its forward pass on the model, which hides that of the class.
    """
    own = vars(model).get("forward")
    forward = type(model).forward if own is None else own.__func__
    if getattr(forward, MARK, False):
        return
    head = with_head(forward)
    setattr(head, MARK, True)
    say(_("{model} runs with the head").format(model=type(model).__name__))
    if own is None:
        type(model).forward = head
    else:
        model.forward = MethodType(head, model)


def in_place_of_backends(original: Callable[..., None]) -> Callable[..., None]:
    """``patch_forward_with_backends``, with one backend whatever the file says.

    Source: verl 0.5.0 to 0.9.1, ``verl/models/transformers/monkey_patch.py``, with the same arguments.
    """

    @functools.wraps(original)
    def patch_forward(
        model: Any, use_fused_kernels: bool = False, fused_kernels_backend: str | None = None
    ) -> None:
        if use_fused_kernels:
            give_head(model)
        else:
            original(model, use_fused_kernels, fused_kernels_backend)

    return patch_forward


def after_monkey_patch(original: Callable[..., None]) -> Callable[..., None]:
    """``apply_monkey_patch``, after which a model with fused kernels has the head in any case.

    verl returns early from it for models that it has no fused head for.
    """

    @functools.wraps(original)
    def patch_model(model: Any, *args: Any, **kwargs: Any) -> None:
        original(model, *args, **kwargs)
        if kwargs.get("use_fused_kernels", args[2] if len(args) > 2 else False):
            give_head(model)

    return patch_model
