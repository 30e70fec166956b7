"""Compaction, expiry, manifests and orphans: when they are due, and doing them beside the live flow."""
