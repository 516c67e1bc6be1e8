"""Whether the installed transformers implements a type of model, found without importing it."""

from importlib.util import find_spec
from pathlib import Path

from tuner.architectures import find_architecture
from tuner.extras import install
from tuner.language import _


def extra() -> str:
    """What a trace needs beside this package."""
    return _("needs the extra: {install}").format(install=install("trace"))


_MAPPINGS = ("auto_mappings.py", "configuration_auto.py")  # transformers 5, and 4


def trace_hint(model_type: str) -> str:
    """What ``--trace`` can do for a type that the formulas do not know."""
    if not find_architecture(model_type).traceable:
        return _(
            "--trace cannot count it either, since some of its layers keep a state instead of keys and values"
        )
    spec = find_spec("transformers")
    if spec is None or spec.origin is None:
        return _("where transformers implements it, --trace counts its tensors ({extra})").format(
            extra=extra()
        )
    if _names(Path(spec.origin).parent / "models" / "auto", model_type):
        return _("--trace counts the tensors of transformers' implementation ({extra})").format(extra=extra())
    return _("the installed transformers does not implement it either, so that --trace cannot help")


def _names(folder: Path, model_type: str) -> bool:
    texts = (folder / name for name in _MAPPINGS)
    return any(f'"{model_type}"' in text.read_text(encoding="utf-8") for text in texts if text.is_file())
