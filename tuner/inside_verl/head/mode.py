"""What the setting of the head asks of the kernels."""

from tuner.inside_verl.settings import HEAD
from tuner.kernels import Mode


def kernel_mode() -> Mode:
    """What is kept of the logits, by the environment of this process."""
    return Mode.SAVED_LOGITS if HEAD.read() == "saved" else Mode.RECOMPUTE
