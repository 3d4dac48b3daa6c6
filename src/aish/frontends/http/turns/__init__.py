"""From the fields that all APIs share to one engine request, and the delivery of its turn."""
