"""The survey: in which contexts a subject keeps the gradient that it has in eager mode.

A *context* is a way of running the subject: under `vmap`, compiled, exported, from a
thread. `call` takes the tensors out of the subject's call, `scene` knows the eager
answers, `context` says what a context is, and `survey` runs them and blames rightly,
with the known-right Functions of `control`. The contexts themselves are in
`battery/contexts`. Nothing is imported here: contexts import this folder, and the
survey imports the contexts.
"""
