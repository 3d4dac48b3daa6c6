"""The ASGI application and the server it runs in: connections, routes, errors, logs, reload."""
