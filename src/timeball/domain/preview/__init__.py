"""Preview of a schedule before it is saved: its fires, clock changes and warnings."""
