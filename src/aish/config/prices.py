"""The prices of models: the dated table that ships with aish, overridden by the user's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from aish.config.schema.context import PriceConfig
from aish.types.usage import Price


class PriceTable(msgspec.Struct, frozen=True):
    date: str
    source: str
    prices: dict[str, Price]


def shipped_prices() -> PriceTable:
    import tomllib  # loaded only when prices are needed

    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceTable, strict=False)


def configured_prices(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {name: Price(price.prompt, price.completion, price.cached) for name, price in configured.items()}


def price_table(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {**shipped_prices().prices, **configured_prices(configured)}
