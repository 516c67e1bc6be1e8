"""How the job is run: parts that the estimate leaves out."""

from tuner.trainers.protocol import Affects
from tuner.trainers.verl.coverage.omission import Job, Omission, changed

_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_ROLES = "{actor_rollout_ref,critic}.**"


def _new_workers(job: Job) -> str | None:
    key = "trainer.use_legacy_worker_impl"
    return key if job.settings.get(key) == "disable" else None


def _asynchronous(job: Job) -> str | None:
    if job.settings.get("trainer.v1.trainer_mode") in (None, "sync"):
        return None
    return job.named("trainer.v1.{separate_async,colocate_async}.**")


RUNNING: tuple[Omission, ...] = (
    Omission(
        name="the schedule of the asynchronous trainer",
        reason="how many batches wait and how often weights are sent is not counted",
        patterns=("trainer.v1.{separate_async,colocate_async}.**",),
        affects=Affects.SECONDS,
        trigger=_asynchronous,
    ),
    Omission(
        name="the routing of requests",
        reason="requests are taken to be dealt out evenly to the replicas",
        patterns=(f"{_ROLLOUT}.router_config_path",),
        affects=Affects.SECONDS,
    ),
    Omission(
        name="the new workers of the critic",
        reason="the critic is taken to run on the old workers, as everything else does in these releases",
        patterns=("trainer.use_legacy_worker_impl <0.7.0",),
        trigger=_new_workers,
    ),
    Omission(
        name="deterministic kernels",
        reason="the kernels that give the same result every time are slower",
        patterns=("{actor_rollout_ref,critic,reward}.**.full_determinism",),
        affects=Affects.SECONDS,
    ),
    Omission(
        name="the profiler",
        reason="what a profiler records takes time and memory of the node",
        patterns=(
            "global_profiler.**",
            "**.{profiler,profile}.**",
            "trainer.{profile_steps,npu_profile,controller_nsight_options,worker_nsight_options}.**",
        ),
        affects=Affects.SECONDS,
        trigger=changed("global_profiler.steps", "trainer.profile_steps", "**.profile.use_profile"),
    ),
    Omission(
        name="saving in the background",
        reason="the copy that is written while training goes on stays in host memory until then",
        patterns=("{actor_rollout_ref,critic}.**.checkpoint.async_save",),
        affects=Affects.HOST,
    ),
    Omission(
        name="the copy of the model in shared memory",
        reason="the files of the model are copied to /dev/shm of each node",
        patterns=("{actor_rollout_ref,critic}.model.use_shm",),
        affects=Affects.HOST,
    ),
    Omission(
        name="the transfer queue",
        reason="batches lie in host memory between the phases",
        patterns=("transfer_queue.{enable,backend}.**",),
        affects=Affects.HOST,
    ),
    Omission(
        name="what is peculiar to an Ascend card",
        reason="its host and its engine in part apart, context, communication and kernels are those of CUDA",
        patterns=("trainer.device",),
    ),
)
