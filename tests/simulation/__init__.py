"""The real loops, operations and workers on virtual time, with seeded faults, and a checker outside of them.

    loop      an event loop whose time jumps, and which can lose or freeze a whole node
    node      a server or worker process: killed, paused, restarted
    network   between clients, workers and servers: slow, lossy, cut
    storage   one real store behind a faulty connection per server
    process   the job processes of a worker, its guard, and the witness they leave
    client    what users do, and what they were answered
    chaos     what goes wrong, when
    world     all of these, put together from one seed
    oracle    which instants are due, by arithmetic of its own
    rules     what jobs share in a world, and what each asks for
    inspector looks at every claim: turns, limits, hosts, deadlines, workers, ranks
    checker   the promises I1 to I26, one function each
    sharing   those of them about what runs share
    plants    bugs that the checker must find

`python -m tests.simulation --help` runs it by hand.
"""
