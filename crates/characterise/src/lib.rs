//! Characterise: what an application is doing, concluded from pairs of cumulative readings.
//!
//! Counters grow since some unknown start, are multiplexed, get lost, and belong to threads that come
//! and go. This crate turns two readings into rates, rates into a bottleneck and a class, and keeps
//! for every application the performance at each CPU count it has had.
//!
//! ```text
//! reading, reading ─► rates ─► class by history ─► bottleneck          (rates, history, bottleneck)
//!                  └► performance by the best source ─► phase ─► curve (progress, source, phase)
//!        without what was spun (waiting)       region ─► which phase's (region_phase)
//! ```
//!
//! Sources: MAPPER §3.2 Tables 1 and 2, §3.3; SAM-MPH §3 and §4.3.
//!
//! Invariants, also with broken readings: nothing panics; every number in a
//! [`Profile`](mapper_model::Profile) is finite and not negative; values of two sources or two CPU
//! counts never meet in one point of a curve; the same observations give the same profiles.

mod app;
mod bottleneck;
mod characteriser;
pub mod config;
pub mod history;
pub mod phase;
mod progress;
mod rates;
mod region_phase;
mod source;
mod waiting;

pub use app::Basis;
pub use bottleneck::{Contender, mapping_order};
pub use characteriser::{Characteriser, CharacteriserState};
pub use config::{CharacteriserConfig, PhaseTest, RuntimeHints};
pub use history::{HistoryRules, SharingHistory, SharingSample, SharingVerdict, Strictness};
