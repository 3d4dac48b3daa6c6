"""The price table: what ships, dated, under what the user's config says."""

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
    import tomllib  # not for those who only use what is free

    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceTable, strict=False)


def own_prices(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {name: Price(price.prompt, price.completion, price.cached) for name, price in configured.items()}


def price_table(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {**shipped_prices().prices, **own_prices(configured)}
