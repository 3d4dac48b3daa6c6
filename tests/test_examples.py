"""The files of `examples/`: what they start is understood, and where they point is where a server is."""

import json
import shlex
import tomllib
from pathlib import Path

from aish.cli.parsers import PARSERS
from aish.config.agents import parse_agent
from aish.config.instructions import read_own_file
from aish.config.schema.config import ServeConfig
from aish.frontends.http.server.serve import read_listen

EXAMPLES = Path(__file__).parents[1] / "examples"
BASE_URL = f"http://{ServeConfig().listen}/v1"


def served(words):
    assert words[0] == "serve"
    return PARSERS["serve"]("aish serve").parse_args(words[1:])


def lines_of(name, start):
    return [line.removeprefix(start) for line in (EXAMPLES / name).read_text().splitlines() if line.startswith(start)]


def test_the_unit_starts_a_server_and_gives_it_the_time_it_needs_to_end():
    (start,) = lines_of("aish.service", "ExecStart=")
    arguments = served(shlex.split(start)[1:])
    assert arguments.listen == ServeConfig().listen
    (stop_s,) = lines_of("aish.service", "TimeoutStopSec=")
    assert int(stop_s) > ServeConfig().drain_s


def test_the_container_serves_at_the_port_that_it_names():
    (command,) = lines_of("Containerfile", "CMD ")
    (port,) = lines_of("Containerfile", "EXPOSE ")
    assert read_listen(served(json.loads(command)).listen) == ("0.0.0.0", int(port))
    assert f"127.0.0.1:{port}/healthz" in lines_of("Containerfile", "HEALTHCHECK ")[0]


def test_the_proxy_and_the_clients_look_for_the_server_where_it_is():
    assert f"proxy_pass http://{ServeConfig().listen};" in (EXAMPLES / "nginx.conf").read_text()
    opencode = json.loads((EXAMPLES / "opencode.json").read_text())
    assert opencode["provider"]["aish"]["options"]["baseURL"] == BASE_URL
    codex = tomllib.loads((EXAMPLES / "codex.toml").read_text())
    assert codex["model_providers"]["aish"]["base_url"] == BASE_URL
    assert BASE_URL in (EXAMPLES / "sdk.py").read_text()


def test_each_agent_can_be_used():
    files = sorted((EXAMPLES / "agents").glob("*.md"))
    agents = [parse_agent(file.stem, read_own_file(file)) for file in files]
    assert [agent.name for agent in agents if agent.is_usable] == ["explorer", "reviewer", "tester"]
    assert [agent.name for agent in agents if agent.definition.only_reads] == ["reviewer"]


def test_the_agents_are_right():
    from aish.config.agents import parse_agent
    from aish.config.instructions import read_own_file

    files = sorted((EXAMPLES / "agents").glob("*.md"))
    agents = [parse_agent(file.stem, read_own_file(file)) for file in files]
    assert [agent.name for agent in agents] == ["explorer", "reviewer", "tester"]
    assert not [agent.file.problem for agent in agents if agent.file.problem]
    assert all(agent.definition.tools and agent.definition.instructions for agent in agents)


def test_the_extension_is_whole_and_its_package_names_its_module():
    from aish.config.extensions import read_extension
    from aish.extensions.loading import load_source

    folder = EXAMPLES / "tickets" / "aish_tickets"
    extension = read_extension(str(folder))
    assert extension.missing_parts() == []
    (manifest,) = [load_source(source).manifest for source in extension.sources]
    assert [tool.name for tool in manifest.tools] == ["ticket", "tickets", "close_ticket"]
    package = tomllib.loads((EXAMPLES / "tickets" / "pyproject.toml").read_text())
    (module,) = package["project"]["entry-points"]["aish.extensions"].values()
    assert (EXAMPLES / "tickets" / (module.replace(".", "/") + ".py")).is_file()
