"""Reads what OpenAI-compatible backends say about themselves, each in its own words, and assumes nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aish.errors import ProviderProtocolError
from aish.types.models import Capabilities, Constraint, ModelInfo

# vLLM and LMDeploy; OpenRouter; LM Studio; Groq and another aish.
_CONTEXT_KEYS = ("max_model_len", "context_length", "max_context_length", "loaded_context_length", "context_window")


def models_from_listing(provider: str, listing: Any) -> list[ModelInfo]:
    entries = listing.get("data", listing.get("models")) if isinstance(listing, dict) else listing
    if not isinstance(entries, list):
        raise ProviderProtocolError(f"{provider} lists its models in a form aish does not know")
    named = (entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str))
    return [ModelInfo(provider, entry["id"], _context_size(entry)) for entry in named]


def refine(info: ModelInfo, props: Any, *, configured_context: int | None) -> ModelInfo:
    """Adds what a llama.cpp server's `/props` knows: the window of a slot and what its template and build can do."""
    if isinstance(props, dict):
        info = msgspec.structs.replace(
            info, context_size=_slot_context(props) or info.context_size, capabilities=_llama_capabilities(props)
        )
    if configured_context:
        info = msgspec.structs.replace(info, context_size=configured_context)
    return info


def serves_any_name(props: Any) -> bool:
    """A llama.cpp server answers to every name with the one model it has loaded."""
    return isinstance(props, dict) and _slot_context(props) is not None


def token_count(answer: Any) -> int | None:
    """llama.cpp gives the tokens, vLLM their count."""
    if not isinstance(answer, dict):
        return None
    if isinstance(answer.get("count"), int):
        return int(answer["count"])
    tokens = answer.get("tokens")
    return len(tokens) if isinstance(tokens, list) else None


def embeddings(provider: str, answer: Any, *, count: int) -> Sequence[Sequence[float]]:
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        vectors = [[float(number) for number in row["embedding"]] for row in rows]
    except (KeyError, TypeError, ValueError) as exc:
        raise ProviderProtocolError(f"{provider} gave embeddings in a form aish does not know") from exc
    if len(vectors) != count:
        raise ProviderProtocolError(f"{provider} gave {len(vectors)} embeddings for {count} texts")
    return vectors


def _context_size(entry: dict[str, Any]) -> int | None:
    for key in _CONTEXT_KEYS:
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _slot_context(props: dict[str, Any]) -> int | None:
    settings = props.get("default_generation_settings")
    value = settings.get("n_ctx") if isinstance(settings, dict) else None
    return value if isinstance(value, int) and value > 0 else None


def _llama_capabilities(props: dict[str, Any]) -> Capabilities:
    template = props.get("chat_template")
    modalities = props.get("modalities")
    return Capabilities(
        native_tools=_template_knows_tools(props.get("chat_template_caps"), template),
        constrained=frozenset({Constraint.JSON_SCHEMA, Constraint.GRAMMAR}),
        tokenize=True,
        vision=bool(isinstance(modalities, dict) and modalities.get("vision")),
    )


def _template_knows_tools(caps: Any, template: Any) -> bool:
    if isinstance(caps, dict) and isinstance(caps.get("supports_tools"), bool):
        return bool(caps["supports_tools"])
    return not isinstance(template, str) or "tools" in template
