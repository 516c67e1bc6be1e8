"""Long-RL: EasyR1 for long videos and images, with sequence parallelism of its own for their encoding."""

from msgspec.structs import replace

from tuner.inputs.tree import merged
from tuner.language import N_
from tuner.trainers.verl.forks.easyr1 import FORK as EASYR1

_VIDEO = {"vila_model": False, "diffusion": False, "guidance_scale": 4.5, "scheduler": ""}

FORK = replace(
    EASYR1,
    name="Long-RL",
    source=(
        "github.com/NVlabs/Long-RL at commit 97abc84 of 2025-07-11 (on EasyR1 0.3.2.dev0): "
        "verl/trainer/config.py, verl/workers/*/config.py, examples/config.yaml"
    ),
    refines="EasyR1",
    tells=(
        "data.vila_model",
        "data.diffusion",
        "data.is_omni",
        "data.video_dir",
        "data.cache_dir",
        "data.audio_max_length",
        "worker.actor.vila_model",
        "worker.actor.diffusion",
        "worker.rollout.num_video_frames",
        "worker.rollout.num_chunk_seq",
        "worker.rollout.group_frames",
        "worker.rollout.max_frames_vllm",
        "worker.rollout.tokens_per_frame",
        "worker.rollout.audio_max_length",
        "worker.rollout.diffusion",
    ),
    keys={
        **{key: verls for key, verls in EASYR1.keys.items() if "lora" not in key and "dynamic" not in key},
        "worker.actor.optim.warmup_style": "actor_rollout_ref.actor.optim.warmup_style",
        "worker.critic.optim.warmup_style": "critic.optim.warmup_style",
    },
    tree=merged(
        EASYR1.tree,
        {
            "data": {
                "video_dir": None,
                "cache_dir": None,
                "vila_model": False,
                "diffusion": False,
                "is_omni": False,
                "audio_max_length": 10000,
                "num_workers": 8,
            },
            "actor_rollout_ref": {"actor": {"use_dynamic_bsz": False}},
            "critic": {"use_dynamic_bsz": False},
            "worker": {
                "actor": _VIDEO,
                "ref": _VIDEO,
                "rollout": {
                    "num_video_frames": 8,
                    "tokens_per_frame": 256,
                    "group_frames": 64,
                    "max_frames_vllm": -1,
                    "diffusion": False,
                    "guidance_scale": 4.5,
                    "resolution": 768,
                    "num_steps": 10,
                    "kl_reward": 0.0,
                    "num_frames": 81,
                    "height": 480,
                    "width": 832,
                    "audio_max_length": 10000,
                    "num_chunk_seq": -1,
                },
            },
        },
    ),
    notes=(
        EASYR1.notes[0],
        N_("the encoding of videos, diffusion models and the sequence parallelism of both are not counted"),
    ),
)
