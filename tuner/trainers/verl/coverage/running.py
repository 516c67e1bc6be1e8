"""How the job is run: parts that the estimate leaves out."""

from tuner.language import N_
from tuner.trainers.key_facts import Affects
from tuner.trainers.omission import Omission, OmissionContext, changed

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_REJECTS = "trainer.rejection_sample"  # of no release
_ROLES = "{actor_rollout_ref,critic}.**"


def _new_workers(job: OmissionContext) -> str | None:
    key = "trainer.use_legacy_worker_impl"
    return key if job.settings.get(key) == "disable" else None


def _asynchronous(job: OmissionContext) -> str | None:
    if job.settings.get("trainer.v1.trainer_mode") in (None, "sync"):
        return None
    return job.named("trainer.v1.{separate_async,colocate_async}.**")


def _in_background(job: OmissionContext) -> str | None:
    saved = [job.workload.actor.saving, None if job.workload.critic is None else job.workload.critic.saving]
    if not any(saving is not None and saving.in_background for saving in saved):
        return None
    return job.named("{actor_rollout_ref,critic}.**.checkpoint.async_save")


def _on_own_gpus(job: OmissionContext) -> str | None:
    """The key by which a recipe has GPUs for log-probabilities that neither train nor generate."""
    keys = (f"async_resources.{role}.n_gpus_per_node" for role in ("actor_fwd", "ref_fwd"))
    return next((key for key in keys if job.settings.get(key)), None)


def _dropped_groups(job: OmissionContext) -> str | None:
    """The key by which trainers of several projects drop groups of equal rewards before the passes."""
    return _REJECTS if job.settings.get(_REJECTS) is True else None


RUNNING: tuple[Omission, ...] = (
    Omission(
        name=N_("groups that a trainer of one's own drops"),
        reason=N_("every sequence of the batch is taken to go through log-probabilities and updates"),
        patterns=(),
        affects=Affects.SECONDS,
        trigger=_dropped_groups,
    ),
    Omission(
        name=N_("log-probabilities on GPUs of their own"),
        reason=N_("the GPUs that compute them neither train nor generate, and are not judged"),
        patterns=(),
        trigger=_on_own_gpus,
    ),
    Omission(
        name=N_("the schedule of the asynchronous trainer"),
        reason=N_("how many batches wait and how often weights are sent is not counted"),
        patterns=("trainer.v1.{separate_async,colocate_async}.**",),
        affects=Affects.SECONDS,
        trigger=_asynchronous,
    ),
    Omission(
        name=N_("the routing of requests"),
        reason=N_("requests are taken to be dealt out evenly to the replicas"),
        patterns=(f"{_ROLLOUT}.router_config_path",),
        affects=Affects.SECONDS,
    ),
    Omission(
        name=N_("the new workers of the critic"),
        reason=N_("the critic is taken to run on the old workers, as everything else does in these releases"),
        patterns=("trainer.use_legacy_worker_impl <0.7.0",),
        trigger=_new_workers,
    ),
    Omission(
        name=N_("deterministic kernels"),
        reason=N_("the kernels that give the same result every time are slower"),
        patterns=("{actor_rollout_ref,critic,reward}.**.full_determinism",),
        affects=Affects.SECONDS,
    ),
    Omission(
        name=N_("the profiler"),
        reason=N_("what a profiler records takes time and memory of the node"),
        patterns=(
            "global_profiler.**",
            "**.{profiler,profile}.**",
            "trainer.{profile_steps,npu_profile,controller_nsight_options,worker_nsight_options}.**",
        ),
        affects=Affects.SECONDS,
        trigger=changed("global_profiler.steps", "trainer.profile_steps", "**.profile.use_profile"),
    ),
    Omission(
        name=N_("saving in the background"),
        reason=N_("the copy that is written while training goes on stays in host memory until then"),
        patterns=(),  # read, since it decides how long training waits
        affects=Affects.HOST,
        trigger=_in_background,
    ),
    Omission(
        name=N_("the copy of the model in shared memory"),
        reason=N_("the files of the model are copied to /dev/shm of each node"),
        patterns=("{actor_rollout_ref,critic}.model.use_shm",),
        affects=Affects.HOST,
    ),
    Omission(
        name=N_("the transfer queue"),
        reason=N_("batches lie in host memory between the phases"),
        patterns=("transfer_queue.{enable,backend}.**",),
        affects=Affects.HOST,
    ),
    Omission(
        name=N_("what is peculiar to an Ascend card"),
        reason=N_(
            "its host and its engine in part apart, context, communication and kernels are those of CUDA"
        ),
        patterns=("trainer.device",),
    ),
)
