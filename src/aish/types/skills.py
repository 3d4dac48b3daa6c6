"""What tools that read Agent Skills have in common, wherever the skills are."""

from __future__ import annotations

from aish.types.tools import JsonSchema

READ_SKILL_TEXT = (
    "Read a skill, which says how a kind of work is done here, before you do that work. With a file: reads that file "
    "of the skill."
)
READ_SKILL_SCHEMA: JsonSchema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name of the skill"},
        "file": {"type": "string", "description": "A file that belongs to the skill, such as references/x.md"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
