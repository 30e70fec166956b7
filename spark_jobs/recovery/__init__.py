"""Attempts that did not finish: mark, adopt, hold or sweep them before anything new is begun."""
