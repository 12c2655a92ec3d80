"""`timeball chaos`: breaks a fleet on purpose and checks that every promise held.

`plan` says what breaks when, `fleet` and `proxy` break it, `load` submits what `witness` writes down when it runs,
`evidence` collects what was promised, seen and recorded, and `checker`, which knows none of them, judges.
"""
