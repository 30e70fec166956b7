"""The built-in checks, one module each, named like the check; a new one needs no other change."""
