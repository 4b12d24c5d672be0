//! Mapping policies: which CPUs each application may use.
