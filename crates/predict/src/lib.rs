//! Performance models: NuPoCo queueing network, Cooperative speedup, NuCore bandwidth program.
