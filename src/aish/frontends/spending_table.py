"""Formats the cost of model calls: a table by day, model or category, and a bar chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Literal

from aish.engine.model.ledger import dollars
from aish.types.usage import SpendingTotal, SpentRow

By = Literal["day", "model", "category"]
_BAR = 24
# A larger difference between our token count and the provider's is shown.
_MAX_DEVIATION = 0.10


def group_spending(rows: Iterable[SpentRow], by: Sequence[By]) -> dict[tuple[str, ...], SpendingTotal]:
    sums: dict[tuple[str, ...], SpendingTotal] = {}
    for row in rows:
        key = tuple(str(getattr(row, field)) for field in by)
        sums[key] = _add(sums.get(key, SpendingTotal()), row.spent)
    return dict(sorted(sums.items()))


def _add(one: SpendingTotal, other: SpendingTotal) -> SpendingTotal:
    return SpendingTotal(*(getattr(one, field) + getattr(other, field) for field in SpendingTotal.__struct_fields__))


def total_spending(rows: Iterable[SpentRow]) -> SpendingTotal:
    return reduce(_add, (row.spent for row in rows), SpendingTotal())


def format_calls(spent: SpendingTotal) -> str:
    return f"{spent.calls} call{'' if spent.calls == 1 else 's'}"


def format_cost(spent: SpendingTotal) -> str:
    """The known cost, with a note if the cost of some calls is unknown."""
    if spent.unknown and spent.unknown == spent.calls:
        return "unknown"
    return f"{dollars(spent.cost)}{' + unknown' if spent.unknown else ''}"


def estimate_note(spent: SpendingTotal) -> str:
    """Our own token count, if it differs from the provider's by more than a tenth; otherwise ""."""
    if not spent.estimates or not spent.estimated_of:
        return ""
    deviation = abs(spent.estimates - spent.estimated_of) / spent.estimated_of
    return f" ~est={spent.estimates}" if deviation > _MAX_DEVIATION else ""


def spending_lines(groups: dict[tuple[str, ...], SpendingTotal], by: Sequence[By]) -> list[str]:
    if not groups:
        return []
    widths = [max(len(field), *(len(key[column]) for key in groups)) for column, field in enumerate(by)]
    head = "  ".join(field.ljust(width) for field, width in zip(by, widths, strict=True))
    lines = [f"{head}  {'calls':>6}  {'in':>9}  {'out':>9}  cost"]
    for key, spent in groups.items():
        names = "  ".join(name.ljust(width) for name, width in zip(key, widths, strict=True))
        counts = f"{spent.calls:>6}  {spent.prompt_tokens:>9}  {spent.completion_tokens:>9}"
        lines.append(f"{names}  {counts}  {format_cost(spent)}{estimate_note(spent)}")
    return lines


def chart_lines(groups: dict[tuple[str, ...], SpendingTotal]) -> list[str]:
    """A bar for each group: by cost if any is known, otherwise by tokens."""
    by_cost = any(spent.cost for spent in groups.values())
    sizes = {key: spent.cost if by_cost else float(spent.tokens) for key, spent in groups.items()}
    largest = max(sizes.values(), default=0.0)
    width = max((len(" ".join(key)) for key in groups), default=0)
    if not largest:
        return []
    return [
        f"{' '.join(key).ljust(width)}  {'█' * max(1 if size else 0, round(_BAR * size / largest)):<{_BAR}}  "
        f"{dollars(size) if by_cost else f'{size:.0f} tokens'}"
        for key, size in sizes.items()
    ]
