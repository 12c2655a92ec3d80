"""The domain: the rules of Timeball as pure code, without I/O, await or clock."""
