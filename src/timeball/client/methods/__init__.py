"""The methods of both clients, one module per entity: the methods of `Client` first, then those of `AsyncClient`. A new
method is written in one module. `tests/architecture/test_clients.py` compares the two forms."""
