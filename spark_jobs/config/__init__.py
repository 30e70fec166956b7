"""Configuration: from the text of ``sluice.yaml`` to settings, with every mistake at once."""
