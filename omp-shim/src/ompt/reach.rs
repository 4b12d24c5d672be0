//! Whether a copy of libomp is observed by its calls, or only through OMPT.
//!
//! *Problem.* Preloading does not reach code that libomp was linked into statically, nor a library loaded with
//! `RTLD_DEEPBIND`. Such a copy may ask for a tool ([`crate::ompt::tool`]); an ordinary one does too, and must not be
//! counted twice.
//!
//! *Approach.* libomp defines `ompt_start_tool` weakly and calls it through a slot that the linker fills in by the
//! scope in which its users' calls are looked up too. After the call the slot leads to the shim, or to the copy itself.
//! Without such a slot the copy is linked in or prefers its own functions; then the slots of its callers decide.

use mapper_shim_core::elf::{self, Module};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    Interposed,
    Hidden,
}

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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Shim,
    Itself,
    Elsewhere,
}

impl Slots {
    fn reach(self) -> Reach {
        let is_hidden = self.in_program
            || self.asks != Some(Target::Shim)
                && (self.asks == Some(Target::Itself)
                    || !self.is_offered
                    || self.is_called_directly
                    || !self.is_imported);
        match is_hidden {
            true => Reach::Hidden,
            false => Reach::Interposed,
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
    fn a_copy_is_judged_by_where_its_scope_leads_and_else_by_its_callers() {
        use Target::{Elsewhere, Itself, Shim};
        type Change = fn(&mut Slots);
        let cases: [(&str, Option<Target>, Change, Reach); 8] = [
            ("as usual", Some(Shim), |_| {}, Reach::Interposed),
            ("it finds itself first", Some(Itself), |_| {}, Reach::Hidden),
            (
                "in the program",
                Some(Shim),
                |it| it.in_program = true,
                Reach::Hidden,
            ),
            (
                "a user's tool came first",
                Some(Elsewhere),
                |_| {},
                Reach::Interposed,
            ),
            ("no slot", None, |_| {}, Reach::Interposed),
            (
                "linked into a library",
                None,
                |it| it.is_offered = false,
                Reach::Hidden,
            ),
            (
                "called directly",
                None,
                |it| it.is_called_directly = true,
                Reach::Hidden,
            ),
            (
                "only its own module calls it",
                None,
                |it| it.is_imported = false,
                Reach::Hidden,
            ),
        ];
        for (what, asks, change, reach) in cases {
            let mut slots = Slots { asks, ..ORDINARY };
            change(&mut slots);
            assert_eq!(slots.reach(), reach, "{what}");
        }
    }
}
