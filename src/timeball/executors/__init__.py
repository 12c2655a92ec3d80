"""Executors: they execute the attempts of each task kind."""
