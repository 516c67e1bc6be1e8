"""Compile the kernels for GPUs that are not here; run in a process in which nothing is interpreted.

Prints one line of JSON for each target: registers spilled to memory and the instructions that matter.
"""

import json
import sys
from typing import Any

import triton
from triton import language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tuner.kernels import dlogits, forward

TARGETS = {
    "hopper": (GPUTarget("cuda", 90, 32), (128, 256, 64, 3)),
    "ampere": (GPUTarget("cuda", 80, 32), (128, 128, 32, 3)),
    "blackwell": (GPUTarget("cuda", 100, 32), (128, 256, 64, 3)),
    "mi300": (GPUTarget("hip", "gfx942", 64), (128, 128, 32, 3)),
}
POINTERS = {"labels": "*i32", "inverse_temperature": "*fp32", "partials": "*fp32", "coefficients": "*fp32"}


def compiled(kernel: Any, target: str, constants: dict[str, Any], blocks: dict[str, tuple[int, int]]) -> Any:
    """The kernel with bfloat16 matrices, through descriptors on Hopper."""
    gpu, (rows, columns, depth, stages) = TARGETS[target]
    hopper = target == "hopper"
    constants = {
        **constants,
        "DESCRIPTORS": hopper,
        "INTERPRETED": False,
        "ROWS": rows,
        "COLUMNS": columns,
        "DEPTH": depth,
        "STAGES": stages,
        "GROUP": 16,
        "DTYPE": tl.bfloat16,
    }
    matrices = {
        name: f"tensordesc<bf16[{block[0]},{block[1]}]>" if hopper else "*bf16"
        for name, block in blocks.items()
    }
    signature = {
        name: "constexpr" if name in constants else {**POINTERS, **matrices}.get(name, "i32")
        for name in kernel.arg_names
    }
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, name in enumerate(kernel.arg_names)
        if name == "H" or name.endswith("_stride") or signature[name].startswith("*")
    }
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=aligned)
    return triton.compile(source, target=gpu, options={"num_warps": 8, "num_stages": stages})


def main() -> None:
    for target in sys.argv[1:]:
        _, (rows, columns, depth, _) = TARGETS[target]
        inputs = {"hidden": (rows, depth), "weight": (columns, depth)}
        saved = {"saved": (rows, columns)}
        gradient = {"d_logits": (rows, columns)}
        kernels = [
            compiled(forward._statistics, target, {"SAVE": True}, inputs | saved),
            compiled(dlogits._recompute, target, {"FLATTEN": target == "hopper"}, inputs | gradient),
        ]
        code = "".join(kernel.asm.get("ptx", kernel.asm.get("amdgcn", "")) for kernel in kernels)
        print(
            json.dumps(
                {
                    "target": target,
                    "shared_bytes": max(kernel.metadata.shared for kernel in kernels),
                    "matrix_instructions": sum(
                        map(code.count, ("wgmma.mma", "mma.sync", "tcgen05.mma", "v_mfma"))
                    ),
                    "copy_engine": code.count("cp.async.bulk.tensor"),
                }
            )
        )


if __name__ == "__main__":
    main()
