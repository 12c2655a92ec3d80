"""Protocols through which the core uses the store, the workers, the executors and the object storage. Each docstring is
a contract that every implementation keeps.
"""
