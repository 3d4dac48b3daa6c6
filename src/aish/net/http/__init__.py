"""The HTTP/1.1 client: connections, exchanges, deadlines, pools and proxies."""
