"""Typed answers of the API, one module per entity. Fields that a newer server adds are ignored, and most fields have
defaults, so that client and server may have different versions."""
