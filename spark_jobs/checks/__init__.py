"""The built-in checks: the facts they judge, their registry, and a module for each check. Pure."""
