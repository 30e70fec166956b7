"""The built-in checks, a file each: name, meaning, severity, limit and judge. Pure."""
