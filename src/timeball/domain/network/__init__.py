"""Which addresses HTTP jobs may connect to."""
