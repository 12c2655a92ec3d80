"""Between rows and the values of the domain."""
