//! Whether a copy of libomp can be heard by its calls, or only through OMPT.
//!
//! *Problem.* What is preloaded comes first where the linker looks functions up, and the shim hears of regions by
//! the functions that it exports under the names of the runtime's. It does not come first for code that libomp was
//! linked into statically, nor for a library that was loaded with `RTLD_DEEPBIND`: these call their own copy. Such
//! a copy may still ask for a tool ([`crate::ompt::tool`]); but an ordinary one asks as well, and must not be heard
//! twice.
//!
//! *Approach.* libomp defines `ompt_start_tool` itself, weakly, and calls it as any exported function: by a slot
//! that the linker fills in by the scope that the copy was loaded with, the one its users' calls are looked up in
//! as well. Once it has been called, the slot says where that scope leads: to the shim, or to the copy itself.
//! Where there is no such slot, the copy is linked into the program or a library (which calls it directly), or
//! was built so that it prefers its own functions; then the slots of those that call it decide.

use mapper_shim_core::elf::{self, Module};

/// How the regions of a copy are heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Its callers call the shim.
    Interposed,
    /// They do not.
    Hidden,
}

/// What is known of a copy's slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slots {
    /// It lies in the program's own file, which comes before everything that is preloaded.
    in_program: bool,
    /// Where its own call for a tool goes.
    asks: Option<Target>,
    /// Whether others could call it: it exports the function that starts regions.
    is_offered: bool,
    /// Whether a module's call for that function goes to this copy directly.
    is_called_directly: bool,
    /// Whether some module imports that function.
    is_imported: bool,
}

/// Where a slot leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Shim,
    Itself,
    Elsewhere,
}

impl Slots {
    const fn reach(self) -> Reach {
        match self {
            Self {
                in_program: true, ..
            } => Reach::Hidden,
            Self {
                asks: Some(Target::Shim),
                ..
            } => Reach::Interposed,
            Self {
                asks: Some(Target::Itself),
                ..
            }
            | Self {
                is_offered: false, ..
            }
            | Self {
                is_called_directly: true,
                ..
            }
            | Self {
                is_imported: false, ..
            } => Reach::Hidden,
            Self { .. } => Reach::Interposed,
        }
    }
}

/// How the copy of libomp that has code at `address` is heard; `shim` is where the shim itself lies.
pub(crate) fn of(copy: &Module, shim: &Module) -> Reach {
    let asks = elf::binding(copy.start, c"ompt_start_tool").map(|target| {
        if shim.contains(target) {
            Target::Shim
        } else if copy.contains(target) {
            Target::Itself
        } else {
            Target::Elsewhere
        }
    });
    let calls = elf::calls_of_others(copy, c"__kmpc_fork_call");
    Slots {
        in_program: copy.path.is_empty(),
        asks,
        is_offered: elf::defines(copy.start, c"__kmpc_fork_call"),
        is_called_directly: calls.iter().any(|call| copy.contains(call.target)),
        is_imported: !calls.is_empty(),
    }
    .reach()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: Slots = Slots {
        in_program: false,
        asks: Some(Target::Shim),
        is_offered: true,
        is_called_directly: false,
        is_imported: true,
    };

    #[test]
    fn a_copy_whose_scope_leads_to_the_shim_is_counted_by_its_calls() {
        assert_eq!(ORDINARY.reach(), Reach::Interposed);
    }

    #[test]
    fn a_copy_that_finds_itself_first_is_observed_through_ompt() {
        let deep = Slots {
            asks: Some(Target::Itself),
            ..ORDINARY
        };
        assert_eq!(deep.reach(), Reach::Hidden);
    }

    #[test]
    fn what_the_program_itself_holds_is_hidden_whatever_it_exports() {
        let program = Slots {
            in_program: true,
            ..ORDINARY
        };
        assert_eq!(program.reach(), Reach::Hidden);
    }

    #[test]
    fn a_copy_without_a_slot_is_judged_by_who_calls_it() {
        let bare = Slots {
            asks: None,
            ..ORDINARY
        };
        assert_eq!(bare.reach(), Reach::Interposed);
        let within = Slots {
            is_offered: false,
            ..bare
        };
        assert_eq!(within.reach(), Reach::Hidden, "linked into a library");
        let direct = Slots {
            is_called_directly: true,
            ..bare
        };
        assert_eq!(direct.reach(), Reach::Hidden);
        let own = Slots {
            is_imported: false,
            ..bare
        };
        assert_eq!(own.reach(), Reach::Hidden, "only its own module calls it");
    }

    #[test]
    fn a_users_tool_that_was_asked_before_says_nothing_of_the_scope() {
        let asked = Slots {
            asks: Some(Target::Elsewhere),
            ..ORDINARY
        };
        assert_eq!(asked.reach(), Reach::Interposed);
    }
}
