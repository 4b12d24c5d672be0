//! Allocation policies: how many CPUs each application may use.
