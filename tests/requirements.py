"""What is promised, and the tests that prove it. `test_requirements.py` checks both ways: every test named here exists,
and every end-to-end and contract test serves a promise.

A pattern is `file::test*`, with shell wildcards, below tests/.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "§2 no orphan: every tool call in history has exactly one result": (
        "engine/test_dispatch.py::test_every_call_has_exactly_one_result*",
        "engine/test_turn.py::test_each_limit_ends_the_turn_cleanly*",
        "providers/test_torture.py::*",
    ),
    "§2 bounded: every buffer has a size, every wait a deadline": (
        "wire/test_http_deadlines.py::*",
        "wire/test_lines.py::*",
        "engine/test_assemble.py::test_endless*",
        "tools/test_shell.py::test_twenty_megabytes*",
    ),
    "§2 nothing lost: what the user saw survives kill -9": (
        "e2e/test_command_line.py::test_kill_9_in_mid_stream*",
        "e2e/test_command_line.py::test_a_signal_in_mid_stream*",
        "e2e/test_command_line.py::test_what_was_said_before_a_kill*",
        "engine/test_recovery.py::*",
        "store/test_crash.py::*",
    ),
    "§4 events: numbered, recorded, replayed byte for byte": (
        "engine/test_turn.py::test_a_plain_answer_is_one_step*",
        "engine/test_turn.py::test_what_is_recorded*",
        "e2e/test_command_line.py::test_a_recorded_turn_replays*",
        "contracts/test_store.py::*",
    ),
    "§5 every failure becomes a result the model can read": (
        "engine/test_dispatch.py::test_arguments_are_parsed*",
        "engine/test_dispatch.py::test_a_failing_tool_becomes_a_result*",
        "engine/test_dispatch.py::test_an_unknown_tool*",
        "engine/test_dispatch.py::test_a_known_tool_outside*",
    ),
    "§5 the repeat guard asks, or stops": (
        "engine/test_dispatch.py::test_the_same_call_three_times*",
        "engine/test_dispatch.py::test_a_person_may_let_a_repeated*",
    ),
    "§5 strict templates get results as text": (
        "engine/test_turn.py::test_*template*",
        "engine/test_turn.py::test_use_tool_role*",
    ),
    "§5 cancellation stops everything and leaves a valid history": (
        "engine/test_turn.py::test_leaving*",
        "engine/test_turn.py::test_cancelling*",
        "engine/test_turn.py::test_no_task_is_left*",
    ),
    "§6 providers: one streaming interface that every adapter keeps": (
        "contracts/test_provider_contract.py::*",
        "providers/test_embedded.py::*",
        "providers/test_ollama.py::*",
        "providers/test_pool.py::*",
        "providers/test_discover.py::*",
    ),
    "§6 names: provider:model, presets, bare names, discovery": (
        "engine/test_route.py::*",
        "e2e/test_command_line.py::test_an_unknown_model*",
        "e2e/test_command_line.py::test_models_lists*",
    ),
    "§6 keys are never shown": (
        "e2e/test_command_line.py::test_keys*",
        "safety/test_redact.py::*",
        "providers/test_redacting.py::*",
    ),
    "§8 tool names lead both ways": ("tools/test_registry.py::*",),
    "§9 MCP: a client that never hangs, leaks or lies": (
        "tools/mcp/test_hostile_stdio.py::*",
        "tools/mcp/test_http.py::*",
        "tools/mcp/test_servers.py::*",
        "e2e/test_command_line.py::test_mcp_servers_are_imported*",
        "e2e/test_real_mcp_servers.py::*",
    ),
    "§10 one gate: rules as data, commands understood, catastrophes asked about": (
        "safety/test_policy.py::*",
        "safety/test_rules.py::*",
        "e2e/test_command_line.py::test_a_command_proved*",
        "e2e/test_command_line.py::test_yes_does_not_cover*",
        "e2e/test_command_line.py::test_safety*",
        "e2e/test_command_line.py::test_a_rule_that_does_not*",
        "e2e/test_command_line.py::test_a_refused_call*",
        "engine/test_dispatch.py::test_a_gate_that_fails*",
    ),
    "§10 untrusted text cannot steer the terminal": ("e2e/test_command_line.py::test_a_reply_with_escape_codes*",),
    "§10 files stay below the workspace": ("tools/test_workspace.py::*",),
    "§17 sessions are listed, shown, searched, exported, deleted, continued": (
        "e2e/test_command_line.py::test_sessions*",
        "e2e/test_command_line.py::test_a_session_is_continued*",
    ),
    "§19 a real shell: one persistent bash on a pty, for the person's lines and the model's": (
        "tools/livebash/test_live_bash.py::*",
        "tools/livebash/test_model_lines.py::*",
        "tools/livebash/test_asking_bash.py::*",
        "tools/livebash/test_streams.py::*",
        "wire/test_pty.py::*",
    ),
    "§19 one-shot use with exit codes that scripts can use": (
        "e2e/test_command_line.py::test_a_tool_call_runs*",
        "e2e/test_command_line.py::test_what_is_piped_in*",
        "e2e/test_command_line.py::test_bytes_that_are_not_text*",
        "e2e/test_command_line.py::test_a_question_that_is_not_utf_8*",
        "e2e/test_command_line.py::test_a_pipe_larger*",
        "e2e/test_command_line.py::test_nothing_to_ask*",
        "e2e/test_command_line.py::test_tools_may_be_narrowed*",
        "e2e/test_command_line.py::test_a_limit_reached*",
        "e2e/test_command_line.py::test_a_provider_that_is_down*",
        "e2e/test_command_line.py::test_bad_usage*",
        "e2e/test_command_line.py::test_a_reader_that_goes_away*",
        "e2e/test_command_line.py::test_closed_and_full_streams*",
    ),
    "§20 the IDE facade: references and renames are exact, and what is not known is not called none": (
        "tools/ide/test_ground_truth.py::*",
        "tools/ide/test_traps.py::*",
        "tools/ide/test_hostile_servers.py::*",
    ),
    "§20 one owner per workspace: an IDE behind MCP, a language server, or a syntax tree": (
        "tools/ide/test_mcp_ide.py::*",
        "tools/ide/test_tree.py::*",
        "tools/ide/test_languages.py::*",
    ),
    "§20 edits need the hash of what was read, and nothing outside the workspace is read or written": (
        "tools/ide/test_reading_and_editing.py::*",
        "tools/test_workspace.py::*",
    ),
    "§20 a model works through real projects in each language": ("e2e/test_ide.py::*",),
    "§21 doctor says what is wrong and how to mend it": ("e2e/test_command_line.py::test_doctor*",),
    "§21 eval measures tool calls, compares modes and models, and fails on a regression": (
        "e2e/test_eval.py::*",
        "faces/eval/test_eval_*.py::*",
    ),
    "§7 damaged calls are repaired where they are sure, and never guessed": (
        "engine/test_corruption.py::*",
        "calls/test_damage.py::*",
        "calls/test_mend.py::*",
    ),
    "§7 calls in text are recognised in every mode and never leak": (
        "calls/test_recognise.py::*",
        "engine/test_toolmode_turns.py::*",
        "faces/http/test_tool_modes.py::*",
        "e2e/test_tool_calls.py::*",
    ),
    "§7 native, constrained, prompted: auto picks, falls back and remembers": ("providers/test_toolmode.py::*",),
    "§7 schemas are simplified for backends, never made stricter": ("calls/test_schema.py::*",),
    "§23 configuration: layered, checked, trusted": (
        "config/*::*",
        "e2e/test_command_line.py::test_a_wrong_config*",
        "e2e/test_command_line.py::test_config_is_made*",
        "e2e/test_command_line.py::test_an_untrusted_project*",
        "e2e/test_command_line.py::test_an_unusable_store*",
        "e2e/test_command_line.py::test_a_damaged_store*",
    ),
    "§24 aish --version loads nothing": (
        "e2e/test_command_line.py::test_version*",
        "test_house.py::test_heavy_libraries*",
    ),
    "§25 what must work on Windows imports without POSIX": ("test_house.py::test_nothing_that_must_work_on_windows*",),
    "§18 real clients work through the server": ("e2e/test_clients_*.py::*",),
    "§18 chat completions, responses, messages and embeddings as clients of each API read them": (
        "faces/http/test_chat.py::*",
        "faces/http/test_responses*.py::*",
        "faces/http/test_messages.py::*",
        "faces/http/test_embeddings.py::*",
    ),
    "§18 whose tool is it": ("engine/test_left_calls.py::*", "faces/http/test_chat.py::test_a_mixed_step*"),
    "§18 a retried request does not run twice": ("faces/http/test_idempotent.py::*",),
    "§18 keys, limits, approvals, sessions, reload": ("faces/http/test_operations.py::*",),
    "§19 a real shell and a model at one prompt": (
        "e2e/test_shell.py::*",
        "tools/livebash/*.py::*",
        "faces/shell/*.py::*",
    ),
}
