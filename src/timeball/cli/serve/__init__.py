"""Commands that start Timeball or move its store."""
