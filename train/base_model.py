"""The base model in two pieces that can travel: the file's own quantised blocks, as they are.

    python -m train.base_model SmolLM2-135M-Instruct.Q4_1.gguf .train

Makes `.train/base-0.npz` and `.train/base-1.npz`, each below 64 MiB. The trainer unpacks the blocks itself, so that it
needs nothing but torch and numpy. Rows of q and k keep llama.cpp's order: the trainer turns pairs as llama.cpp does,
and the adapter fits the file without any reordering.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

MAX_PIECE_BYTES = 60 * 1024 * 1024
_WORDS = ("llama.block_count", "llama.attention.head_count", "llama.attention.head_count_kv", "llama.rope.freq_base")


def split(source: Path, folder: Path) -> list[Path]:
    reader = gguf.GGUFReader(source)
    pieces: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for tensor in reader.tensors:
        if size + tensor.data.nbytes > MAX_PIECE_BYTES:
            pieces.append({})
            size = 0
        size += tensor.data.nbytes
        shape = "x".join(str(n) for n in reversed(tensor.shape.tolist()))
        pieces[-1][f"{tensor.name}|{tensor.tensor_type.name}|{shape}"] = np.array(tensor.data)
    facts = {word: np.array(_fact(reader, word)) for word in _WORDS}
    pieces[0] |= {f"fact|{word}": value for word, value in facts.items()}
    return [_save(folder / f"base-{index}.npz", piece) for index, piece in enumerate(pieces)]


def _fact(reader: gguf.GGUFReader, word: str) -> float:
    field = reader.get_field(word)
    if field is None:
        raise SystemExit(f"the model file has no {word}; is it a Llama?")
    return float(field.contents())


def _save(path: Path, piece: dict[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=False, **piece)
    return path


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m train.base_model MODEL.gguf FOLDER")
    for path in split(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{path} {path.stat().st_size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
