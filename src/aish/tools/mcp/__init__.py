"""The MCP client, ours from the wire up.

    async with open_session(ServerSpec("files", command=("mcp-files", "/srv")), on_event=show) as session:
        print([tool.name for tool in session.tools])
        output = await session.call_tool("read", {"path": "a.txt"}, timeout_s=30)

`connect` is the way in, `session` what it gives, `types` what goes in and comes out, `errors` what goes wrong. Below
them: `link` (handshake and revisions), `stdio` and `http` (transports), `listing`, `schema` and `content` (lenient
reading of untrusted data).
"""
