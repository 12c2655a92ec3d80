"""The requests of the API, one module per subject. They are built without I/O, so that both clients share them.

A request has a method, a path, parameters, a body, headers, the type of its answer, and a flag that says whether it may
be sent again after the connection broke and its effect is unknown."""
