//! The OpenMP shim.
