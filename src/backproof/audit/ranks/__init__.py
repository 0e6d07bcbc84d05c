"""Functions that communicate: replayed on all ranks in lockstep, judged as one function.

    rank 0   leads: the referee, which sees one Function of the inputs of all ranks
             (`stage`), decides alone what runs next
    others   serve: run their part of forward or backward, and hand it over (`part`)

A `circle` is the ranks and how they exchange what they know. `communication` tells which
Functions communicate, `observation` what real calls looked like on each rank,
`convention` how inputs and the loss may be shared between ranks, `adjoint` asks the law
BP801, and `replicas` asks of the others whether an all-reduce is missing. `lockstep` is
the order of it all. Where a program has one rank nothing of this runs.
"""
