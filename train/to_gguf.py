"""From the trainer's pieces to an adapter that llama.cpp loads beside the model: F16, one file.

    python -m train.to_gguf .train/out/adapter-*.npz -o .train/adapter.gguf

Rows of q and k stay as they are: training saw them in llama.cpp's order already (see `base_model`).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import gguf
import numpy as np

_NAME = re.compile(r"blk_(\d+)_(\w+)_([ab])")


def read(paths: list[Path]) -> tuple[dict[str, np.ndarray], float]:
    tensors: dict[str, np.ndarray] = {}
    alpha = 0.0
    for path in paths:
        with np.load(path) as piece:
            for key in piece.files:
                if key == "alpha":
                    alpha = float(piece[key])
                elif found := _NAME.fullmatch(key):
                    tensors[f"blk.{found[1]}.{found[2]}.weight.lora_{found[3]}"] = piece[key].astype(np.float16)
    if not tensors or not alpha:
        raise SystemExit("these are not all pieces of an adapter: give every adapter-*.npz of one run")
    return tensors, alpha


def write(tensors: dict[str, np.ndarray], alpha: float, path: Path) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("general.name", "aish tool calls for SmolLM2-135M-Instruct")
    writer.add_string("general.license", "apache-2.0")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for name, value in sorted(tensors.items()):
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", type=Path, nargs="+")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    tensors, alpha = read(options.pieces)
    write(tensors, alpha, options.out)
    sys.stdout.write(f"{options.out} {options.out.stat().st_size / 1e6:.1f} MB, {len(tensors)} tensors\n")


if __name__ == "__main__":
    main()
