"""An override that adds a key which is there

What it checks
--------------
Overrides that begin with ``+`` for a key to which the release gives a value.
The override is the same without the sign.

Why it matters
--------------
Hydra adds only what is missing, and stops with an error before verl has started.

When it does not apply
----------------------
``++`` sets a key whether or not it is there.
Keys whose default is ``null`` can be added, and so can values that are lists or sections.

Sources
-------
Hydra 1.3 ``hydra/_internal/config_loader_impl.py`` (``_apply_overrides_to_config``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Layer, Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.guards import RefusedBy
from tuner.trainers.verl.checks.report import assign, report
from tuner.trainers.verl.checks.settings import in_release
from tuner.trainers.verl.programs import Program
from tuner.workload import Workload

RULE = Rule(
    code="CFG160",
    name="appended-key",
    summary=N_("an override that adds a key which is there"),
    severity=Severity.ERROR,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.EXACT,
    refuses=True,
    about_keys=True,
)

REFUSED_BY = RefusedBy.HYDRA

PROGRAMS = tuple(Program)


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """One finding per key that Hydra would not add."""
    for key in settings.user_keys:
        origin = settings.origin(key)
        if origin is None or origin.layer is not Layer.OVERRIDE or not _appends(origin.text):
            continue
        if not in_release(settings, key) or settings.default_value(key) is None:
            continue
        if settings.composed is not None:
            continue  # the file that Hydra has need not have what the release has
        value = settings.get(key)
        if not isinstance(value, (list, dict)):
            yield report(
                RULE,
                settings,
                _("+{key} adds a key that {release} has: Hydra refuses it").format(
                    key=key, release=settings.defaults_of or workload.release
                ),
                keys=[key],
                overrides=[assign(settings, key, value)],
            )


def _appends(text: str) -> bool:
    return text.startswith("+") and not text.startswith("++")
