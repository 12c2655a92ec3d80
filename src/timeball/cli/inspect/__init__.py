"""Commands that explain what happened or what will."""
