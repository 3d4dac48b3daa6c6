"""Tool calls as models write them: found in text, read with patience, mended where the meaning is sure. Pure."""
