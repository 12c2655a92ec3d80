"""How attempts of each task kind are executed."""
