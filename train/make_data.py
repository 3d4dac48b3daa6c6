"""Makes the training data: prompts and answers as text, and the same as tokens for the trainer.

    python -m train.make_data --model smollm2.gguf --source FOLDER

Writes `.train/data.jsonl.gz` (to read) and `.train/tokens.npz` (to train on). The same seed gives the same data.
The cases in `held_out/` are the second split: they are measured, never learned. Requests of the suites that ship are
read, too, to leave them out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from aish.types.messages import UserMessage
from train.examples import Maker
from train.measured import held_out_examples, measured_requests, plain
from train.render import END, Example, prompt
from train.tokens import read_tokenizer
from train.whole import Apart, read_whole

MAX_TOKENS = 1400
_TRAIN, _HELD_OUT = 0, 1
_KEPT_EVERY = 12  # of the tools with whole requests, one in so many is only measured


def collected(options: argparse.Namespace) -> Iterator[tuple[int, Example]]:
    for example in held_out_examples():
        yield _HELD_OUT, example
    apart = Apart.of(options.apart)
    whole = read_whole(apart)
    sys.stdout.write(f"whole: {len(whole)} tools; left out {apart.dropped}\n")
    trained = [one for place, one in enumerate(whole) if place % _KEPT_EVERY]
    maker = Maker(options.source, trained, random.Random(options.seed))
    measured = measured_requests()
    for example in maker.examples(options.size):
        said = [message.text for message in example.messages if isinstance(message, UserMessage)]
        if not any(plain(text) in measured or apart.has_request(text) for text in said):
            yield _TRAIN, example
    for example in (*maker.unseen_tools(), *maker.unseen_whole(whole[::_KEPT_EVERY])):
        yield _HELD_OUT, example


def written(options: argparse.Namespace) -> Counter[str]:
    tokenizer = read_tokenizer(options.model)
    ids: list[int] = []
    offsets, answers, splits, kinds = [0], [], [], []
    counts: Counter[str] = Counter()
    options.out.mkdir(parents=True, exist_ok=True)
    with gzip.open(options.out / "data.jsonl.gz", "wt", compresslevel=6) as file:
        for split, example in collected(options):
            asked = prompt(example.messages, example.tools)
            head = tokenizer.encode(asked, add_special_tokens=False).ids
            tail = tokenizer.encode(example.answer + END, add_special_tokens=False).ids
            if len(head) + len(tail) > MAX_TOKENS:
                counts["too long"] += 1
                continue
            ids += head + tail
            offsets.append(len(ids))
            answers.append(len(head))
            splits.append(split)
            kinds.append(example.kind)
            counts[f"{'held out ' if split else ''}{example.kind}"] += 1
            counts["tokens"] += len(head) + len(tail)
            counts["answer tokens"] += len(tail)
            file.write(
                json.dumps(
                    {"split": split, "kind": example.kind, "prompt": asked, "answer": example.answer},
                    ensure_ascii=False,
                )
                + "\n"
            )
    np.savez_compressed(
        options.out / "tokens.npz", ids=np.array(ids, np.uint16), offsets=np.array(offsets, np.int64),
        answers=np.array(answers, np.int32), split=np.array(splits, np.int8), kinds=np.array(kinds),
    )  # fmt: skip
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="the GGUF file, for its vocabulary")
    parser.add_argument("--source", type=Path, required=True, help="folder with the open data")
    parser.add_argument(
        "--apart", type=Path, nargs="*", default=[], help="files of cases that no request must come near"
    )
    parser.add_argument("--out", type=Path, default=Path(".train"))
    parser.add_argument("--size", type=int, default=110_000, help="examples to make")
    parser.add_argument("--seed", type=int, default=7)
    for name, count in sorted(written(parser.parse_args()).items()):
        sys.stdout.write(f"{name}: {count}\n")


if __name__ == "__main__":
    main()
