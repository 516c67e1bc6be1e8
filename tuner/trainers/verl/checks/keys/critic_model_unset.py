"""A critic that is started from a path of verl's own defaults

What it checks
--------------
A job that makes a critic, names the model that is trained, and leaves ``critic.model.path`` at the default.
Without ``algorithm.adv_estimator`` verl estimates advantages by ``gae``, which needs a critic.

Why it matters
--------------
The default is a folder below the home directory, which nothing downloads: where it is not there, the workers stop when models are loaded.
That is before anything is generated, and before a validation that is all there is to do.

When it does not apply
----------------------
The folder is there, with a model of the same tokens.
A trainer of another name than verl's own may make no critic.
Settings without a launch are not asked: what starts them may name the model.

Sources
-------
verl 0.4.1 ``trainer/config/ppo_trainer.yaml`` (``critic.model.path``), ``trainer/ppo/ray_trainer.py:346`` (``use_critic``),
``workers/fsdp_workers.py`` (``CriticWorker._build_critic_model_optimizer``); 0.9.1 ``trainer/config/critic/critic.yaml``,
``trainer/ppo/utils.py`` (``need_critic``).
"""

from collections.abc import Iterator

from tuner.findings import Finding, Goal, Numerics, Rule, Severity
from tuner.inputs.settings import Settings
from tuner.language import N_, _
from tuner.trainers.verl.checks.report import report
from tuner.trainers.verl.models_built import built_models
from tuner.trainers.verl.read import model_path
from tuner.trainers.verl.roles import uses_critic
from tuner.workload import Workload

RULE = Rule(
    code="CFG206",
    name="critic-model-unset",
    summary=N_("a critic that is started from a path of verl's own defaults"),
    severity=Severity.WARNING,
    goal=Goal.CORRECTNESS,
    numerics=Numerics.CHANGED,
)

_PROGRAM = "verl.trainer.main_ppo"
_MODEL, _ESTIMATOR = "critic.model.path", "algorithm.adv_estimator"
_PLACE = "~/models/"


def check(settings: Settings, workload: Workload, version: str) -> Iterator[Finding]:
    """A finding where the critic's path is the default, and surely used."""
    path = settings.get(_MODEL)
    if settings.is_set(_MODEL) or not isinstance(path, str) or not path.startswith(_PLACE):
        return
    if not _has_critic(settings) or model_path(settings) is None:
        return
    text = _(
        "{key}={path} is the default of {release} and nothing downloads it: the critic does not load unless "
        "that folder is there"
    ).format(key=_MODEL, path=path, release=workload.release)
    if not settings.is_set(_ESTIMATOR):
        text = _("{text}; {estimator}={value}, a default as well, is what asks for a critic").format(
            text=text, estimator=_ESTIMATOR, value=settings.get(_ESTIMATOR)
        )
    yield report(RULE, settings, text, keys=[_MODEL, "actor_rollout_ref.model.path"])


def _has_critic(settings: Settings) -> bool:
    """Whether the program surely makes one: a copy's as its code says, verl's own as the release does."""
    if settings.has_statement is not None or settings.program is not None:
        return built_models(settings).critic is True
    return settings.started in ("", _PROGRAM) and uses_critic(settings)  # a file or overrides start none
