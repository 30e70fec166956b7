"""Values side by side: what readers that take many at once are made of."""
