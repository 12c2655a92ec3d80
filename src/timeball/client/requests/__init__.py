"""Every request there is, built without sending anything: the same for the synchronous and the asynchronous client. A
module for each entity.

A request names its method, path, parameters and body, what its answer is read as, and whether it may be sent
again when the connection broke and nobody knows what became of it.
"""
