"""`timeball chaos`: breaks a fleet on purpose and checks that every promise was kept.

`plan` decides which faults occur when. `fleet` and `proxy` cause them. `load` submits jobs, and `witness` is the
function of these jobs, which records each execution in a file. `evidence` collects what clients were promised, what was
executed and what Timeball recorded. `checker` judges that; of this package it imports only `history`.
"""
