//! The letter and the colour that stand for a program. Letters always, for people who cannot distinguish the colours.

use super::timeline::Holder;
use mapper_model::AppId;
use std::collections::BTreeMap;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz0123456789";
/// Classes of the style: the colours of Okabe and Ito, which people with any kind of colour vision can tell apart.
const COLOURS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) letter: char,
    pub(super) class: &'static str,
}

/// The marks of programs. A program keeps its own until it is forgotten.
#[derive(Clone, Default, Debug)]
pub(super) struct Marks(BTreeMap<AppId, usize>);

impl Marks {
    /// Gives marks to new ones among these programs, and forgets all others.
    pub(super) fn keep(&mut self, programs: &[AppId]) {
        self.0.retain(|id, _| programs.contains(id));
        for id in programs {
            let taken: Vec<usize> = self.0.values().copied().collect();
            let free = (0..).find(|place| !taken.contains(place));
            self.0.entry(*id).or_insert(free.unwrap_or(0));
        }
    }

    /// That of a program that is not forgotten.
    pub(super) fn known(&self, id: AppId) -> Option<Mark> {
        let place = self.0.get(&id)?;
        Some(Mark {
            letter: char::from(LETTERS[place % LETTERS.len()]),
            class: COLOURS[place % COLOURS.len()],
        })
    }

    /// That of a program; of one that is forgotten, a question mark.
    pub(super) fn of(&self, id: AppId) -> Mark {
        self.known(id).unwrap_or(Mark {
            letter: '?',
            class: "several",
        })
    }

    pub(super) fn of_holder(&self, holder: Holder) -> Mark {
        match holder {
            Holder::One(id) => self.of(id),
            Holder::None => Mark {
                letter: '·',
                class: "free",
            },
            Holder::Several => Mark {
                letter: '+',
                class: "several",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_mark_and_that_of_a_forgotten_one_is_free() {
        let mut marks = Marks::default();
        let letters = |marks: &Marks| [1, 2, 3].map(|id| marks.of(AppId(id)).letter);
        marks.keep(&[AppId(1), AppId(2)]);
        assert_eq!(letters(&marks), ['A', 'B', '?']);
        marks.keep(&[AppId(2), AppId(3)]);
        assert_eq!(letters(&marks), ['?', 'B', 'A']);
    }

    #[test]
    fn there_are_marks_for_any_number_of_programs() {
        let mut marks = Marks::default();
        let programs: Vec<_> = (1..=100).map(AppId).collect();
        marks.keep(&programs);
        assert_eq!(marks.of(AppId(LETTERS.len() as u64 + 1)).letter, 'A');
    }
}
