"""What calls cost, as text: a table by day, model or category, and a small chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from aish.engine.model.ledger import dollars
from aish.types.usage import Spent, SpentRow

By = Literal["day", "model", "category"]
_BAR = 24
# A count of ours that is further off than this is worth a note.
_OFF = 0.10


def grouped(rows: Iterable[SpentRow], by: Sequence[By]) -> dict[tuple[str, ...], Spent]:
    sums: dict[tuple[str, ...], Spent] = {}
    for row in rows:
        key = tuple(str(getattr(row, field)) for field in by)
        sums[key] = add(sums.get(key, Spent()), row.spent)
    return dict(sorted(sums.items()))


def add(one: Spent, other: Spent) -> Spent:
    return Spent(*(getattr(one, field) + getattr(other, field) for field in Spent.__struct_fields__))


def total(rows: Iterable[SpentRow]) -> Spent:
    spent = Spent()
    for row in rows:
        spent = add(spent, row.spent)
    return spent


def calls(spent: Spent) -> str:
    return f"{spent.calls} call{'' if spent.calls == 1 else 's'}"


def money(spent: Spent) -> str:
    """What is known, and that there is more where some is not."""
    if spent.unknown and spent.unknown == spent.calls:
        return "unknown"
    return f"{dollars(spent.cost)}{' + unknown' if spent.unknown else ''}"


def estimate_note(spent: Spent) -> str:
    """Our own count, where it and the provider's differ by more than a tenth."""
    if not spent.estimates or not spent.estimated_of:
        return ""
    off = abs(spent.estimates - spent.estimated_of) / spent.estimated_of
    return f" ~est={spent.estimates}" if off > _OFF else ""


def table(groups: dict[tuple[str, ...], Spent], by: Sequence[By]) -> list[str]:
    if not groups:
        return []
    widths = [max(len(field), *(len(key[place]) for key in groups)) for place, field in enumerate(by)]
    head = "  ".join(field.ljust(width) for field, width in zip(by, widths, strict=True))
    lines = [f"{head}  {'calls':>6}  {'in':>9}  {'out':>9}  cost"]
    for key, spent in groups.items():
        names = "  ".join(name.ljust(width) for name, width in zip(key, widths, strict=True))
        counts = f"{spent.calls:>6}  {spent.prompt_tokens:>9}  {spent.completion_tokens:>9}"
        lines.append(f"{names}  {counts}  {money(spent)}{estimate_note(spent)}")
    return lines


def chart(groups: dict[tuple[str, ...], Spent]) -> list[str]:
    """A bar for each group: by cost where there is any, else by tokens."""
    by_cost = any(spent.cost for spent in groups.values())
    sizes = {key: spent.cost if by_cost else float(spent.tokens) for key, spent in groups.items()}
    most = max(sizes.values(), default=0.0)
    width = max((len(" ".join(key)) for key in groups), default=0)
    if not most:
        return []
    return [
        f"{' '.join(key).ljust(width)}  {'█' * max(1 if size else 0, round(_BAR * size / most)):<{_BAR}}  "
        f"{dollars(size) if by_cost else f'{size:.0f} tokens'}"
        for key, size in sizes.items()
    ]
