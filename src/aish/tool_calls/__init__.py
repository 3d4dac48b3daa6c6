"""Tool calls as models write them: found in text, read leniently, and repaired where the meaning is certain. Pure."""
