"""What the core needs of the world, as protocols whose docstrings are the contract."""
