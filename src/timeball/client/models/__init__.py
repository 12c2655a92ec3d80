"""Typed answers of the API, one module per entity. Fields that a newer server adds are ignored. Fields other than ids
have defaults, so that client and server may have different versions."""
