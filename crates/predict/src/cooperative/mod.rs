//! The models of Cooperative Parallel Runtimes: greedy allocation and the chunk rule.

pub mod chunks;
pub mod greedy;
