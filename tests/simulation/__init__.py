"""Runs the real loops, operations and workers on virtual time with seeded faults, and checks them from outside.

    loop      an event loop with virtual time, which can drop or freeze the callbacks of a node
    node      a server or worker process: it can be killed, paused and restarted
    network   the calls between clients, workers and servers: slow, lossy, cut
    storage   one real store, behind a faulty connection per server
    process   the job processes of a worker, its guard, and the records that the jobs write
    client    the requests of users, and the answers to them
    chaos     which faults occur, and when
    world     all of these, made from one seed
    oracle    the fires that are due, computed independently of the code under test
    rules     the keys and limits that jobs of a world share, and the fields of each job
    inspector checks every claim: ordering keys, limits, hosts, deadlines, workers, ranks
    checker   the promises I1 to I26, one function each
    sharing   the promises about what runs share
    tenants   whose each job is, which tenants each worker serves, and the promises about that
    plants    bugs that the checker must find

`python -m tests.simulation --help` shows how to run it by hand.
"""
