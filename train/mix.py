"""A weighted mean of adapters, as one adapter of the same rank: what several runs agree on generalises better.

    python -m train.mix .train/run5=0.5 .train/run6=0.5 -o .train/mixed/adapter-0.npz

The mean is of what the adapters add to the weights, not of their factors, which may differ where the sum does not. It
is brought back to the rank by its largest singular values; how much is lost by that is said. Needs numpy only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Tensors = dict[str, np.ndarray]


def read(folder: Path) -> tuple[Tensors, float]:
    """The tensors of all pieces, and what their product is multiplied with."""
    tensors: Tensors = {}
    for path in sorted(folder.glob("adapter-*.npz")):
        with np.load(path) as piece:
            tensors |= {name: piece[name].astype(np.float64) for name in piece.files}
    if "alpha" not in tensors:
        raise SystemExit(f"{folder} holds no adapter: name a folder with all adapter-*.npz of one run")
    alpha, rank = float(tensors.pop("alpha")), float(tensors.pop("rank"))
    return tensors, alpha / rank


def mixed(adapters: Sequence[tuple[Tensors, float]], rank: int) -> tuple[Tensors, float]:
    """The mean as factors of one adapter with alpha twice its rank, and the share that the rank has no room for."""
    result: Tensors = {}
    lost: list[float] = []
    for name in [key for key in adapters[0][0] if key.endswith("_b")]:
        left = np.concatenate([tensors[name] * weight for tensors, weight in adapters], axis=1)
        right = np.concatenate([tensors[f"{name[:-1]}a"] for tensors, _ in adapters], axis=0)
        wide, result[f"{name[:-1]}a"], share = _reduced(left, right, rank)
        result[name] = wide / 2  # what alpha is, by the rank
        lost.append(share)
    return result, float(np.mean(lost))


def _reduced(left: np.ndarray, right: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Two factors of the rank whose product is as near to left @ right as can be."""
    rows, rows_rest = np.linalg.qr(left)
    columns, columns_rest = np.linalg.qr(right.T)
    u, sizes, v = np.linalg.svd(rows_rest @ columns_rest.T)
    root = np.sqrt(sizes[:rank])
    share = float(np.sqrt((sizes[rank:] ** 2).sum() / max(1e-30, (sizes**2).sum())))
    return (rows @ u[:, :rank]) * root, ((columns @ v[:rank].T) * root).T, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", help="FOLDER=WEIGHT, the folder of a run")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=32)
    options = parser.parse_args()
    pairs = [part.rpartition("=") for part in options.parts]
    adapters = [
        (tensors, scale * float(weight)) for folder, _, weight in pairs for tensors, scale in [read(Path(folder))]
    ]
    tensors, lost = mixed(adapters, options.rank)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    half: dict[str, Any] = {name: value.astype(np.float16) for name, value in tensors.items()}
    np.savez(options.out, alpha=np.array(2.0 * options.rank), rank=np.array(options.rank), **half)
    sys.stdout.write(f"{options.out}: {lost:.1%} of the mean is lost by its rank\n")


if __name__ == "__main__":
    main()
