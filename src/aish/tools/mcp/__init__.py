"""The MCP client.

    async with open_session(ServerSpec("files", command=("mcp-files", "/srv")), on_event=show) as session:
        print([tool.name for tool in session.tools])
        output = await session.call_tool("read", {"path": "a.txt"}, timeout_s=30)

`connect` opens a connection and `session` is its API; `types` and `errors` are their data. Below them are `transport`
(stdio and HTTP) and `listing`, `schema` and `content`, which read untrusted data leniently.
"""
