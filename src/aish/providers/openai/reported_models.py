"""Reads what OpenAI-compatible backends report about themselves, each in its own form, and assumes nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aish.errors import ProviderProtocolError
from aish.types.models import Capabilities, Constraint, ModelProfile

# vLLM; LM Studio; OpenRouter; Groq and another aish; Mistral, and LM Studio for the window used in training.
_CONTEXT_KEYS = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length")

# Backends that name themselves in their listings, and what their servers are known to do.
_KNOWN_OWNERS: Mapping[str, Capabilities] = {
    "vllm": Capabilities(constrained=frozenset({Constraint.JSON_SCHEMA}), tokenize=True),
    "lmdeploy": Capabilities(constrained=frozenset({Constraint.JSON_SCHEMA}), tokenize=True),
    "mnn": Capabilities(native_tools=False),  # its server never reads `tools`
}


def models_from_listing(provider: str, listing: Any) -> list[ModelProfile]:
    entries = listing.get("data", listing.get("models")) if isinstance(listing, dict) else listing
    if not isinstance(entries, list):
        raise ProviderProtocolError(f"{provider} lists its models in a form aish does not know")
    named = (entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str))
    return [
        ModelProfile(provider, entry["id"], _context_size(entry), _listed_capabilities(entry), _parameters(entry))
        for entry in named
    ]


def refine(info: ModelProfile, props: Any) -> ModelProfile:
    """Adds what a llama.cpp server's `/props` reports: the window of a slot, and what its template and build
    support."""
    if not isinstance(props, dict) or _slot_context(props) is None:
        return info
    return msgspec.structs.replace(info, context_size=_slot_context(props), capabilities=_llama_capabilities(props))


def serves_any_name(props: Any) -> bool:
    """A llama.cpp server answers to every model name with the one model that it has loaded."""
    return isinstance(props, dict) and _slot_context(props) is not None


def slot_count(props: Any) -> int:
    """The slots of a llama.cpp server; 0 if it is another backend."""
    if not serves_any_name(props):
        return 0
    return positive_number(props.get("total_slots")) or 1


def token_count(answer: Any) -> int | None:
    """llama.cpp returns the tokens, vLLM their count, LMDeploy the length."""
    if not isinstance(answer, dict):
        return None
    for key in ("count", "length"):
        if (count := positive_number(answer.get(key))) is not None:
            return count
    tokens = answer.get("tokens")
    return len(tokens) or None if isinstance(tokens, list) else None


def embeddings(provider: str, vectors: Any, *, count: int) -> Sequence[Sequence[float]]:
    """Checks that there are as many as texts, and that all are numbers."""
    try:
        checked = [[float(number) for number in vector] for vector in vectors]
    except (TypeError, ValueError, OverflowError) as exc:
        raise ProviderProtocolError(f"{provider} gave embeddings in a form aish does not know") from exc
    if len(checked) != count:
        raise ProviderProtocolError(f"{provider} gave {len(checked)} embeddings for {count} texts")
    return checked


def embedding_rows(answer: Any) -> Any:
    """The vectors of an OpenAI-shaped answer, in the order of the texts; None if it has another shape."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    numbers = [row.get("index") for row in rows]
    if all(isinstance(number, int) for number in numbers):
        rows = sorted(rows, key=lambda row: int(row["index"]))
    return [row.get("embedding") for row in rows]


def _context_size(entry: dict[str, Any]) -> int | None:
    """The window that the model runs with. For a model that is not loaded, LM Studio reports only what it could be
    loaded with."""
    if entry.get("state") == "not-loaded":
        return None
    meta = entry.get("meta")  # llama.cpp
    running = positive_number(meta.get("n_ctx")) if isinstance(meta, dict) else None
    sizes = (positive_number(entry.get(key)) for key in _CONTEXT_KEYS)
    return running or next((size for size in sizes if size), None)


def _parameters(entry: dict[str, Any]) -> int | None:
    """Reported by llama.cpp only."""
    meta = entry.get("meta")
    return positive_number(meta.get("n_params")) if isinstance(meta, dict) else None


def positive_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _listed_capabilities(entry: dict[str, Any]) -> Capabilities:
    if (known := _KNOWN_OWNERS.get(str(entry.get("owned_by")))) is not None:
        return known
    kind = entry.get("type")  # LM Studio: llm, vlm or embeddings
    if kind in ("llm", "vlm", "embeddings") and "state" in entry:
        schema = frozenset({Constraint.JSON_SCHEMA})
        return Capabilities(constrained=schema, vision=kind == "vlm", embeddings=kind == "embeddings")
    return _openrouter_capabilities(entry)


def _openrouter_capabilities(entry: dict[str, Any]) -> Capabilities:
    architecture, parameters = entry.get("architecture"), entry.get("supported_parameters")
    modalities = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    taken = parameters if isinstance(parameters, list) else ["tools"]
    schema = {Constraint.JSON_SCHEMA} if "structured_outputs" in taken else set()
    return Capabilities(
        native_tools="tools" in taken,
        constrained=frozenset(schema),
        vision=isinstance(modalities, list) and "image" in modalities,
    )


def _slot_context(props: dict[str, Any]) -> int | None:
    settings = props.get("default_generation_settings")
    return positive_number(settings.get("n_ctx")) if isinstance(settings, dict) else None


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
