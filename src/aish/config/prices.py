"""The price table: what ships, dated, under what the user's config says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from aish.config.schema_context import PriceConfig
from aish.types.usage import Price


class PriceTable(msgspec.Struct, frozen=True):
    date: str
    source: str
    prices: dict[str, Price]


def shipped_prices() -> PriceTable:
    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceTable, strict=False)


def price_table(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    own = {name: Price(price.prompt, price.completion, price.cached) for name, price in configured.items()}
    return {**shipped_prices().prices, **own}
