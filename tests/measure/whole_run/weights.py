"""Random weights of a model's configuration; imports nothing of the project, so that it runs anywhere.

    python weights.py FOLDER

``FOLDER`` has a ``config.json``, which stays as it is.
"""

import sys
from pathlib import Path


def write_weights(folder: Path) -> int:
    """Write the weights; how many there are."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = (folder / "config.json").read_bytes()
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(str(folder)), dtype=torch.bfloat16
        )
    model.save_pretrained(folder)
    (folder / "config.json").write_bytes(config)
    return sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    print(write_weights(Path(sys.argv[1])), "parameters")
