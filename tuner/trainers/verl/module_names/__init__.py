"""The releases of verl that have a module, or a name in one: a file has those that not every release has.

``names.txt`` has a line for each module: its name, the releases that have it, and names in it with theirs
where those are fewer. Releases are the bits of a hexadecimal number, the oldest bundled one the lowest. A
``*`` stands for names that a module has without naming them.

Source: the modules of verl's wheels, see :mod:`tuner.trainers.verl.module_names.build`.
"""

from functools import cache
from pathlib import Path

from tuner.trainers.verl.releases import BUNDLED

FILE = "names.txt"
ANY = "*"


def releases_importing(module: str, name: str = "") -> frozenset[str] | None:
    """The bundled releases in which a module of verl can be imported, or a name from it.

    None where all of them have it, and where none has: that is of a verl that is no release.

    Args:
        module: with dots.
        name: that is imported from it; empty of the module alone.
    """
    modules, every = _modules(), (1 << len(BUNDLED)) - 1
    own, names = modules.get(module, (0, {}))
    having = own
    if name:
        of_module = modules.get(f"{module}.{name}", (0, {}))[0]
        having &= names.get(name, 0) | names.get(ANY, 0) | of_module
    if having in (0, every):
        return None
    return frozenset(release for bit, release in enumerate(BUNDLED) if having >> bit & 1)


def is_released(module: str) -> bool:
    """Whether some bundled release has a module."""
    return module in _modules()


@cache
def _modules() -> dict[str, tuple[int, dict[str, int]]]:
    text = Path(__file__).with_name(FILE).read_text(encoding="utf-8")
    modules: dict[str, tuple[int, dict[str, int]]] = {}
    for line in text.splitlines():
        module, releases, *names = line.split()
        own = int(releases, 16)
        pairs = (name.partition("=") for name in names)
        modules[module] = own, {name: int(bits, 16) if bits else own for name, _is, bits in pairs}
    return modules
