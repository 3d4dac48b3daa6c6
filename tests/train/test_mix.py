"""The mean of adapters adds the mean of what they add."""

from __future__ import annotations

import sys

import pytest

np = pytest.importorskip("numpy")
mix = pytest.importorskip("train.mix")


def adapter(seed: int, rank: int = 3, out: int = 10, into: int = 8):
    rng = np.random.default_rng(seed)
    return {"blk_0_attn_q_b": rng.normal(size=(out, rank)), "blk_0_attn_q_a": rng.normal(size=(rank, into))}


def added(tensors, scale):
    return scale * tensors["blk_0_attn_q_b"] @ tensors["blk_0_attn_q_a"]


def test_with_room_enough_the_mean_is_exact():
    one, two = adapter(1), adapter(2)
    made, lost = mix.mixed([(one, 2.0 * 0.25), (two, 1.0 * 0.75)], 6)
    assert np.allclose(added(made, 2.0), 0.25 * added(one, 2.0) + 0.75 * added(two, 1.0))
    assert lost < 1e-9


def test_with_less_room_it_is_near_and_says_how_near():
    one, two = adapter(1), adapter(2)
    made, lost = mix.mixed([(one, 1.0), (two, 1.0)], 4)
    wanted = added(one, 1.0) + added(two, 1.0)
    missing = np.linalg.norm(added(made, 2.0) - wanted) / np.linalg.norm(wanted)
    assert 0 < lost < 0.7
    assert missing == pytest.approx(lost)


def test_a_folder_without_an_adapter_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mix", f"{tmp_path}=1", "-o", str(tmp_path / "out.npz")])
    with pytest.raises(SystemExit, match="holds no adapter"):
        mix.main()


def test_pieces_are_read_and_written(tmp_path, monkeypatch, capsys):
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "adapter-0.npz", alpha=np.array(6.0), rank=np.array(3), **adapter(seed))
    out = tmp_path / "mixed" / "adapter-0.npz"
    parts = [f"{tmp_path / 'one'}=0.5", f"{tmp_path / 'two'}=0.5"]
    monkeypatch.setattr(sys, "argv", ["mix", *parts, "-o", str(out), "--rank", "6"])
    mix.main()
    tensors, scale = mix.read(out.parent)
    wanted = (added(adapter(1), 2.0) + added(adapter(2), 2.0)) / 2
    assert np.allclose(added(tensors, scale), wanted, atol=0.02)
    assert "0.0% of the mean" in capsys.readouterr().out
