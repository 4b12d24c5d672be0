//! What all features build on: the calling thread, the page, the runtimes and the team of a region.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::get_unwrap,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]

pub mod adaptive_schedule;
pub mod attachment;
pub mod by_handle;
pub mod caller;
pub mod chunks;
pub mod clock;
pub mod construct;
pub mod elf;
pub mod environment;
pub mod exactness;
pub mod features;
pub mod loaded;
pub mod logical;
pub mod looked_up;
pub mod lookup;
pub mod membership;
pub mod nested;
pub mod pass_on;
pub mod patience;
pub mod progress;
pub mod runtime;
pub mod scope;
pub mod served;
pub mod shared_loop;
pub mod shield;
pub mod symbols;
pub mod team_record;
pub mod thread_state;
pub mod waits;

#[cfg(test)]
static FEATURES: features::Features = features::NONE;
#[cfg(test)]
features::define_features!(FEATURES);
