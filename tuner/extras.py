"""What the package is called where it is installed, and how to install what only some commands need."""

from tuner.language import _

DISTRIBUTION = "rl-tuner"  # as in pyproject.toml; the index has another project by the name "tuner"


def install(extra: str) -> str:
    """The command that adds an extra of this package, from a copy of its repository."""
    return _("pip install '.[{extra}]', in a copy of tuner's repository").format(extra=extra)
