"""The methods of both clients, a module for each entity: those of `Client`, and the same for `AsyncClient` below them.
A new method is written in one module; `tests/architecture/test_clients.py` compares its two forms."""
