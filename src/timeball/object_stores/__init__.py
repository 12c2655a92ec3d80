"""Implementations of object storage: a folder, or a bucket of a cloud service."""
