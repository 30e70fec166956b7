"""Upkeep during normal drains: compaction, expiry, manifests and orphans, and when each is due."""
