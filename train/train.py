"""Trains a LoRA adapter for a Llama of the size of SmolLM2-135M. One file, torch and numpy only.

    python train/train.py --data .train/tokens.npz --base .train/base-0.npz .train/base-1.npz --out OUT

Weights are unpacked from the quantised blocks of the GGUF file, and positions turn neighbouring pairs, as llama.cpp
does for this architecture: what is learned fits that file as it is. Loss is taken on the answer's tokens only, and only
there logits are made. Batches hold examples of like length, padded on the right, where causal attention never looks.

Knows nothing of tools or prompts: it sees tokens. Ends by itself when `--minutes` are over, with the learning rate
brought down in time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

LINEARS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
END = 2  # <|im_end|>
_EPSILON = 1e-5
_MAX_PIECE_BYTES = 14 * 1024 * 1024  # what comes back in one file


def unpacked(kind: str, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of 32 weights. Q4_1: scale, minimum, then 16 bytes of two 4-bit weights. Q8_0: scale, 32 signed bytes."""
    if kind == "F32":
        return data.astype(np.float32).reshape(shape)
    if kind == "F16":
        return data.view(np.float16).astype(np.float32).reshape(shape)
    raw = data.reshape(-1).view(np.uint8)
    if kind == "Q8_0":
        blocks = raw.reshape(-1, 34)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return (scale * blocks[:, 2:].copy().view(np.int8).astype(np.float32)).reshape(shape)
    if kind == "Q4_1":
        blocks = raw.reshape(-1, 20)
        head = blocks[:, :4].copy().view(np.float16).astype(np.float32)
        quants = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1).astype(np.float32)
        return (head[:, :1] * quants + head[:, 1:]).reshape(shape)
    raise SystemExit(f"tensors of type {kind} cannot be read; take the Q4_1 file of the model")


def read_base(paths: list[Path]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    tensors: dict[str, np.ndarray] = {}
    facts: dict[str, float] = {}
    for path in paths:
        with np.load(path) as piece:
            for key in piece.files:
                name, *rest = key.split("|")
                if name == "fact":
                    facts[rest[0]] = float(piece[key])
                else:
                    shape = tuple(int(n) for n in rest[1].split("x"))
                    # The served file is F16: so are the weights that the adapter is made for.
                    full = unpacked(rest[0], piece[key], shape)
                    tensors[name] = full if rest[0] == "F32" else full.astype(np.float16).astype(np.float32)
    return tensors, facts


class Llama(torch.nn.Module):
    """The frozen base and the adapter beside it. `forward` gives the last hidden states, `logits` words for them."""

    def __init__(
        self, tensors: dict[str, np.ndarray], facts: dict[str, float], rank: int, alpha: float, kind: torch.dtype
    ) -> None:
        super().__init__()
        self.blocks = int(facts["llama.block_count"])
        self.heads = int(facts["llama.attention.head_count"])
        self.kv_heads = int(facts["llama.attention.head_count_kv"])
        self.freq_base = facts["llama.rope.freq_base"]
        self.kind = kind
        self.run_block: Callable[..., torch.Tensor] = one_block
        self.scale = alpha / rank
        self.dropped = 0.0
        for name, value in tensors.items():
            tensor = torch.from_numpy(value)
            self.register_buffer(_flat(name), tensor if "norm" in name else tensor.to(kind), persistent=False)
        self.adapter = torch.nn.ParameterDict()
        for block in range(self.blocks):
            for linear in LINEARS:
                out, into = tensors[f"blk.{block}.{linear}.weight"].shape
                key = _flat(f"blk.{block}.{linear}")
                self.adapter[f"{key}_a"] = torch.nn.Parameter(torch.randn(rank, into) / math.sqrt(into))
                self.adapter[f"{key}_b"] = torch.nn.Parameter(torch.zeros(out, rank))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedding = self.get_buffer("token_embd_weight")
        # As in all other blocks, or the first would be compiled apart.
        hidden = F.embedding(ids, embedding).float().requires_grad_(torch.is_grad_enabled())
        cos, sin = self._turns(ids.shape[1], ids.device)
        for block in range(self.blocks):
            for tensor, dimension in ((hidden, 0), (hidden, 1), (cos, 0), (sin, 0)):  # batches differ in these only
                torch._dynamo.maybe_mark_dynamic(tensor, dimension)
            weights = [self._adapted(f"blk_{block}_{name}") for name in LINEARS]
            norms = [self.get_buffer(f"blk_{block}_{name}_norm_weight") for name in ("attn", "ffn")]
            hidden = self.run_block(hidden, weights, norms, cos, sin, self.heads)
        return _norm(hidden, self.get_buffer("output_norm_weight"), self.kind)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return F.linear(hidden, self.get_buffer("token_embd_weight")).float()

    def _adapted(self, key: str) -> torch.Tensor:
        """The adapter is added to the weights, not to what comes out of them: a batch has far more rows than they."""
        down = self.adapter[f"{key}_a"]
        if self.training and self.dropped:  # of the adapter's dimensions: others must be able to do without them
            kept = torch.rand(down.shape[0], 1, device=down.device) >= self.dropped
            down = down * (kept / (1 - self.dropped))
        added = self.adapter[f"{key}_b"] @ down
        return (self.get_buffer(f"{key}_weight").float() + self.scale * added).to(self.kind)

    def _turns(self, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        size = self.get_buffer("token_embd_weight").shape[1] // self.heads
        steps = torch.arange(0, size, 2, device=device, dtype=torch.float32) / size
        angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * self.freq_base**-steps
        return angles.cos(), angles.sin()


def one_block(
    hidden: torch.Tensor,
    weights: list[torch.Tensor],
    norms: list[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    heads: int,
) -> torch.Tensor:
    """Attention and feed-forward of one block; all that differs from block to block is handed in, so that it is
    compiled once."""
    q_weight, k_weight, v_weight, output, gate, up, down = weights
    rows, length, width = hidden.shape
    x = _norm(hidden, norms[0], q_weight.dtype)
    q = _turned(F.linear(x, q_weight).view(rows, length, heads, -1).transpose(1, 2), cos, sin)
    k = _turned(F.linear(x, k_weight).view(rows, length, -1, q.shape[-1]).transpose(1, 2), cos, sin)
    v = F.linear(x, v_weight).view(rows, length, -1, q.shape[-1]).transpose(1, 2)
    group = heads // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    hidden = hidden + F.linear(seen.transpose(1, 2).reshape(rows, length, width), output).float()
    x = _norm(hidden, norms[1], q_weight.dtype)
    return hidden + F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down).float()


def _norm(hidden: torch.Tensor, weight: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    scaled = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + _EPSILON)
    return (scaled * weight).to(kind)


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Neighbouring pairs turn together: 0 with 1, 2 with 3."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2).to(x.dtype)


@dataclass
class Examples:
    """Token ids one after another; example i is `ids[offsets[i]:offsets[i + 1]]`, its answer begins at `answers[i]`."""

    ids: np.ndarray
    offsets: np.ndarray
    answers: np.ndarray
    split: np.ndarray
    kinds: np.ndarray

    @classmethod
    def read(cls, paths: list[Path]) -> Examples:
        """Of several files one after another; what is held out is the same in all of them, and taken from the first."""
        names = ("ids", "offsets", "answers", "split", "kinds")
        pieces = []
        for path in paths:
            with np.load(path) as file:
                pieces.append(cls(*(file[name] for name in names)))
        shifts = np.cumsum([0, *(len(piece.ids) for piece in pieces)])
        for piece, shift in zip(pieces[1:], shifts[1:], strict=False):
            piece.split[piece.split == 1] = 2
            piece.offsets = piece.offsets[1:] + shift
        return cls(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names))

    def chosen(self, split: int) -> np.ndarray:
        return np.flatnonzero(self.split == split)

    def batches(self, chosen: np.ndarray, max_tokens: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Examples of like length together, in an order by chance."""
        lengths = np.diff(self.offsets)[chosen]
        order = chosen[np.argsort(lengths + rng.uniform(0, 24, len(chosen)), kind="stable")]
        batches: list[np.ndarray] = []
        begin, longest = 0, 0
        for end, example in enumerate(order):
            length = int(self.offsets[example + 1] - self.offsets[example])
            if begin < end and max(longest, length) * (end - begin + 1) > max_tokens:
                batches.append(order[begin:end])
                begin, longest = end, 0
            longest = max(longest, length)
        batches.append(order[begin:])
        return [batches[index] for index in rng.permutation(len(batches))]

    def padded(self, batch: np.ndarray, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids, and which of them are the answer's."""
        spans = [(int(self.offsets[i]), int(self.offsets[i + 1]), int(self.answers[i])) for i in batch]
        length = max(end - begin for begin, end, _ in spans)
        ids = np.full((len(spans), length), END, np.int64)
        is_answer = np.zeros((len(spans), length), bool)
        for row, (begin, end, answer) in enumerate(spans):
            ids[row, : end - begin] = self.ids[begin:end]
            is_answer[row, answer : end - begin] = True
        return torch.from_numpy(ids).to(device), torch.from_numpy(is_answer).to(device)


def answer_loss(model: Llama, ids: torch.Tensor, is_answer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean loss over the answers' tokens, and whether greedy decoding would write each answer exactly."""
    hidden = model(ids[:, :-1])
    mask = is_answer[:, 1:]
    logits = model.logits(hidden[mask])
    wanted = ids[:, 1:][mask]
    wrong = torch.zeros(mask.shape, dtype=torch.bool, device=ids.device)
    wrong[mask] = logits.argmax(-1) != wanted
    return F.cross_entropy(logits, wanted), ~wrong.any(dim=1)


@torch.no_grad()
def evaluated(model: Llama, data: Examples, max_tokens: int, device: str) -> dict[str, Any]:
    model.eval()
    losses: list[tuple[float, int]] = []
    right: dict[str, list[bool]] = {}
    for batch in data.batches(data.chosen(1), max_tokens, np.random.default_rng(0)):
        loss, exact = answer_loss(model, *data.padded(batch, device))
        losses.append((loss.item(), len(batch)))
        for example, is_right in zip(batch, exact.tolist(), strict=True):
            right.setdefault(str(data.kinds[example]), []).append(is_right)
    mean = sum(loss * n for loss, n in losses) / max(1, sum(n for _, n in losses))
    shares = {kind: round(sum(values) / len(values), 4) for kind, values in sorted(right.items())}
    return {"loss": round(mean, 4), "exact": shares}


@torch.no_grad()
def margins(model: Llama, data: Examples, options: argparse.Namespace) -> dict[str, list[float]]:
    """How much likelier the second of two tokens is than the first, where the held-out answers choose between them."""
    first, second = options.choice
    found: dict[str, list[float]] = {}
    for batch in data.batches(data.chosen(1), options.tokens, np.random.default_rng(0)):
        ids, is_answer = data.padded(batch, options.device)
        hidden = model(ids)
        for row, example in enumerate(batch):
            logits = model.logits(hidden[row, int(is_answer[row].int().argmax())])
            found.setdefault(str(data.kinds[example]), []).append(round(float(logits[second] - logits[first]), 3))
    return found


def endless(data: Examples, max_tokens: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    chosen = data.chosen(0)
    while True:
        yield from data.batches(chosen, max_tokens, rng)


def learning_rate(done: float, step: int, options: argparse.Namespace) -> float:
    """Up over the first steps, then down along half a cosine to a twentieth."""
    warm = min(1.0, (step + 1) / options.warmup)
    return float(options.lr * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))))


def train(model: Llama, data: Examples, options: argparse.Namespace, log: Path) -> None:
    decayed = [p for name, p in model.adapter.items()]
    optimiser = torch.optim.AdamW(decayed, lr=options.lr, betas=(0.9, 0.98), weight_decay=options.decay, fused=True)
    batches = endless(data, options.tokens, options.seed)
    started = time.monotonic()
    average = [p.detach().clone() for p in decayed] if options.average else []
    loss_sum, seen_tokens, step = torch.zeros((), device=options.device), 0, 0
    while True:
        spent_s = time.monotonic() - started
        done = max(step / options.steps, spent_s / (options.minutes * 60))
        if step % options.every == 0 or done >= 1:
            found = evaluated(model, data, options.tokens, options.device)
            mean = float(loss_sum) / max(1, step % options.every or options.every)
            note(log, step=step, spent_s=round(spent_s, 1), tokens=seen_tokens, train_loss=round(mean, 4), **found)
            loss_sum.zero_()
        if done >= 1:
            take_average(model, data, options, average, log)
            return
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(done, step, options)
        ids, is_answer = data.padded(next(batches), options.device)
        model.train()
        loss, _ = answer_loss(model, ids, is_answer)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decayed, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if average:
            torch._foreach_lerp_(average, [p.detach() for p in decayed], 1 - min(options.average, step / (step + 10)))
        loss_sum += loss.detach()  # not read here: that would wait for the device
        seen_tokens += ids.numel()
        step += 1


def take_average(
    model: Llama, data: Examples, options: argparse.Namespace, average: list[torch.Tensor], log: Path
) -> None:
    """What the adapter was on average towards the end generalises a little better than where it happened to end."""
    if not average:
        return
    with torch.no_grad():
        for parameter, mean in zip(model.adapter.values(), average, strict=True):
            parameter.copy_(mean)
    note(log, averaged=options.average, **evaluated(model, data, options.tokens, options.device))


def note(log: Path, **facts: Any) -> None:
    line = json.dumps(facts)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    with log.open("a") as file:
        file.write(line + "\n")


def save(model: Llama, options: argparse.Namespace) -> None:
    """F16, in pieces that can travel. The scale is in the alpha, as llama.cpp has it."""
    pieces: list[dict[str, Any]] = [{"alpha": np.array(options.alpha), "rank": np.array(options.rank)}]
    size = 0
    for name, value in model.adapter.items():
        array = value.detach().float().cpu().numpy().astype(np.float16)
        if size + array.nbytes > _MAX_PIECE_BYTES:
            pieces.append({})
            size = 0
        size += array.nbytes
        pieces[-1][name] = array
    for index, piece in enumerate(pieces):
        np.savez(options.out / f"adapter-{index}.npz", **piece)


def load_adapter(model: Llama, paths: list[Path]) -> None:
    with torch.no_grad():
        for path in paths:
            with np.load(path) as piece:
                for name in piece.files:
                    if name not in ("alpha", "rank"):
                        model.adapter[name].copy_(torch.from_numpy(piece[name].astype(np.float32)))


@torch.no_grad()
def continued(model: Llama, ids: list[int], count: int) -> list[int]:
    """Greedy, without a cache: for checks only."""
    device = model.get_buffer("token_embd_weight").device
    for _ in range(count):
        hidden = model(torch.tensor([ids], device=device))
        ids = [*ids, int(model.logits(hidden[0, -1:]).argmax())]
    return ids


def build(options: argparse.Namespace) -> Llama:
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    tensors, facts = read_base(options.base)
    kind = torch.bfloat16 if options.precision == "bf16" else torch.float32
    model = Llama(tensors, facts, options.rank, options.alpha, kind).to(options.device)
    model.dropped = options.dropped
    if options.start:
        load_adapter(model, options.start)
    if options.compiled:
        torch._dynamo.config.suppress_errors = True  # where it cannot be compiled it runs as it is, only slower
        model.run_block = torch.compile(one_block)
    return model


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[Path(".train/tokens.npz")])
    parser.add_argument("--base", type=Path, nargs="+", default=[Path(".train/base-0.npz"), Path(".train/base-1.npz")])
    parser.add_argument("--out", type=Path, default=Path(".train/out"))
    parser.add_argument("--start", type=Path, nargs="*", default=[], help="adapter pieces to go on from")
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--alpha", type=float, default=64.0)
    parser.add_argument("--lr", type=float, default=8e-4)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--dropped", type=float, default=0.0, help="share of the dimensions left out in a step")
    parser.add_argument("--average", type=float, default=0.0, help="decay of a running mean that is kept; 0: none")
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=24_000, help="tokens of a batch, padding counted")
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--minutes", type=float, default=7.5, help="training ends by then, its rate brought down")
    parser.add_argument("--every", type=int, default=200, help="steps from one evaluation to the next")
    parser.add_argument("--choice", type=int, nargs=2, default=[1245, 11247], help="tokens of `name` and `answer`")
    parser.add_argument("--precision", choices=("bf16", "tf32"), default="bf16")
    parser.add_argument("--compiled", action="store_true", help="fuse each block's small steps")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed(sys.argv[1:])
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "log.jsonl"
    note(log, options={key: str(value) for key, value in vars(options).items()}, torch=torch.__version__)
    model = build(options)
    data = Examples.read(options.data)
    train(model, data, options, log)
    save(model, options)
    (options.out / "margins.json").write_text(json.dumps(margins(model, data, options)))


if __name__ == "__main__":
    main()
