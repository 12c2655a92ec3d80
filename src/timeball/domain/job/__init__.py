"""Jobs: their spec, their edits, and references to large values."""
