"""The recorded peaks that the model is held against."""

from pathlib import Path

RECORDED = Path(__file__).resolve().parents[2] / "docs" / "validation" / "data"
VERL_FSDP = RECORDED / "verl-0.9.1-fsdp-2xh200.json"
STEPS_OF_RUNS = RECORDED / "steps-of-public-runs.jsonl"
VERL_FSDP_MORE = RECORDED / "verl-0.9.1-fsdp-2xh200-more.json"
VERL_FSDP_ONE_GPU = RECORDED / "verl-0.9.1-fsdp-1xh200.json"
VERL_FSDP_HOLDOUT = RECORDED / "verl-0.9.1-fsdp-4xh200-holdout.json"
VERL_FSDP_IMAGES = RECORDED / "verl-0.9.1-fsdp-images-1xh100.json"
VERL_FSDP_IMAGES_HOLDOUT = RECORDED / "verl-0.9.1-fsdp-images-1xh100-holdout.json"
VERL_FSDP_IMAGES_TWO_GPUS = RECORDED / "verl-0.9.1-fsdp-images-2xh200.json"
VERL_FSDP_FINE_TUNING = RECORDED / "verl-0.9.1-fsdp-fine-tuning-2xh100.json"
VERL_FSDP_SECOND_HOLDOUT = RECORDED / "verl-0.9.1-fsdp-4xh200-second-holdout.json"
