"""Which verl this process runs."""

import sys
from importlib.util import find_spec
from pathlib import Path


def running_release() -> str | None:
    """The release of verl that is imported, else of the one that would be; None without verl.

    Sources on the search path count, for which no package is installed: verl keeps its version in a file.
    """
    imported = getattr(sys.modules.get("verl"), "__version__", None)
    if isinstance(imported, str):
        return imported
    try:
        spec = find_spec("verl")
    except ValueError:  # a module without a specification stands in for it
        return None
    if spec is None or not spec.origin:
        return None
    try:
        return (Path(spec.origin).parent / "version" / "version").read_text(encoding="utf-8").strip()
    except OSError:
        return None
