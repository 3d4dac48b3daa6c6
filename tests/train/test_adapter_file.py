"""The adapter's way into a file that llama.cpp loads."""

from __future__ import annotations

from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
gguf = pytest.importorskip("gguf")


def test_the_pieces_of_a_run_become_one_adapter_with_names_that_llama_cpp_knows(tmp_path: Path):
    from train.to_gguf import read, write

    a, b = np.ones((2, 8), np.float16), np.full((4, 2), 3, np.float16)
    np.savez(tmp_path / "adapter-0.npz", alpha=np.array(4.0), rank=np.array(2), blk_0_attn_q_a=a)
    np.savez(tmp_path / "adapter-1.npz", blk_0_attn_q_b=b)
    tensors, alpha = read(sorted(tmp_path.glob("adapter-*.npz")))
    write(tensors, alpha, tmp_path / "adapter.gguf")
    reader = gguf.GGUFReader(tmp_path / "adapter.gguf")
    found = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    assert reader.get_field("adapter.lora.alpha").contents() == 4.0
    assert reader.get_field("general.type").contents() == "adapter"
    assert (found["blk.0.attn_q.weight.lora_a"] == a).all()
    assert (found["blk.0.attn_q.weight.lora_b"] == b).all()


def test_half_an_adapter_is_refused(tmp_path: Path):
    from train.to_gguf import read

    np.savez(tmp_path / "adapter-1.npz", blk_0_attn_q_b=np.ones((4, 2), np.float16))
    with pytest.raises(SystemExit, match=r"every adapter-\*.npz"):
        read([tmp_path / "adapter-1.npz"])
