//! Identifiers as newtypes, so that a socket number can never be passed for a CPU number.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A hardware thread, by the number Linux gives it.
    CpuId(u32)
}
id! {
    /// A physical core. Unique over the whole machine (not per socket), dense from 0.
    CoreId(u32)
}
id! {
    /// A socket (package). Dense from 0.
    SocketId(u32)
}
id! {
    /// A NUMA node, by the number Linux gives it.
    NodeId(u32)
}
id! {
    /// A last-level cache. Dense from 0; several per socket on chiplet machines.
    CacheId(u32)
}
id! {
    /// An application under management. Never reused while the daemon lives.
    AppId(u64)
}
id! {
    /// A kernel thread of an application (Linux tid).
    ThreadId(u32)
}

macro_rules! index {
    ($($name:ident)*) => {$(
        impl $name {
            /// The number as an index into the lists of a [`crate::Topology`].
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! { CpuId CoreId SocketId CacheId }
