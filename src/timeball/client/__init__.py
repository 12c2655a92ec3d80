"""The Python client. Pure functions build the requests and decode the answers; `Client` and `AsyncClient` send them."""
