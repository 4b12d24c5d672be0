//! Characterise: what an application is doing, concluded from pairs of cumulative readings.
//!
//! The machine is read once an interval. Single readings mean nothing: counters grow since some
//! unknown start, are multiplexed onto too few registers, get lost, and belong to threads that come
//! and go. This crate turns two readings into rates, rates into a bottleneck and a class, and
//! keeps for every application the performance at each CPU count it has been seen with.
//!
//! ```text
//! reading, reading ─► rates ─► class by history ─► bottleneck          (rates, history, bottleneck)
//!                  └► performance by the best source ─► phase ─► curve (progress, source, phase)
//!        without what was spun (waiting)       region ─► which phase's (region_phase)
//! ```
//!
//! Sources: MAPPER §3.2 Tables 1 and 2, §3.3; SAM-MPH §3 and §4.3.
//!
//! Invariants, checked by property tests with random and broken readings: nothing here panics,
//! every number in a [`Profile`](mapper_model::Profile) is finite and not negative; performance
//! values of two sources, or of two CPU counts, never meet in one point of a curve; the same
//! observations give the same profiles.

mod app;
pub mod bottleneck;
mod characteriser;
pub mod config;
pub mod history;
pub mod phase;
pub mod progress;
pub mod rates;
pub mod region_phase;
pub mod source;
pub mod waiting;

pub use bottleneck::{Contender, mapping_order};
pub use characteriser::{Characteriser, CharacteriserState};
pub use config::{CharacteriserConfig, PhaseTest, RuntimeHints};
pub use history::{HistoryRules, SharingHistory, SharingSample, SharingVerdict, Strictness};
