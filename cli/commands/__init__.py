"""Commands: one file each, and one for all developers' commands."""
