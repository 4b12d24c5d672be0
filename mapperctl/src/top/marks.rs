//! The letter and the colour that stand for an application for as long as it runs. Letters always, for people who
//! cannot distinguish the colours.

use mapper_control::schema::AppStatus;
use mapper_model::AppId;
use ratatui::style::{Color, Modifier, Style};
use std::collections::BTreeMap;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwyz0123456789";

/// Colours that every terminal has. Red is for broken promises.
const COLOURS: [Color; 10] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Blue,
    Color::LightCyan,
    Color::LightYellow,
    Color::LightGreen,
    Color::LightMagenta,
    Color::LightBlue,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Palette {
    Colours,
    LettersAlone,
}

impl Palette {
    /// By `NO_COLOR` (<https://no-color.org>) and terminals that have none.
    pub(super) fn of_environment() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let none = std::env::var("TERM").is_ok_and(|term| term == "dumb" || term.ends_with("-m"));
        if unwanted || none {
            Self::LettersAlone
        } else {
            Self::Colours
        }
    }

    pub(super) fn alarm(self) -> Style {
        match self {
            Self::Colours => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Self::LettersAlone => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) letter: char,
    colour: Color,
}

impl Mark {
    pub(super) fn style(self, palette: Palette) -> Style {
        match palette {
            Palette::Colours => Style::new().fg(Color::Black).bg(self.colour),
            Palette::LettersAlone => Style::new(),
        }
    }
}

/// The marks of the applications that run, from A on. When there are more than letters, several share one.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(BTreeMap<AppId, Mark>);

impl Marks {
    pub(super) fn get(&self, app: AppId) -> Option<Mark> {
        self.0.get(&app).copied()
    }

    /// Those that run keep their marks, and each newcomer takes the first that is free.
    pub(super) fn update(&mut self, apps: &[AppStatus]) {
        self.0.retain(|id, _| apps.iter().any(|app| app.id == *id));
        let mut ids: Vec<AppId> = apps.iter().map(|app| app.id).collect();
        ids.sort_unstable();
        for id in ids {
            let taken: Vec<char> = self.0.values().map(|mark| mark.letter).collect();
            self.0.entry(id).or_insert_with(|| {
                let free = |place: &usize| !taken.contains(&char::from(LETTERS[*place]));
                let place = (0..LETTERS.len()).find(free);
                let place = place.unwrap_or(taken.len() % LETTERS.len());
                Mark {
                    letter: char::from(LETTERS[place]),
                    colour: COLOURS[place % COLOURS.len()],
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn letters_begin_at_a_stay_with_their_programs_and_are_used_again() {
        let sample = samples::status().apps.remove(0);
        let apps = |ids: &[u64]| -> Vec<AppStatus> {
            let app = |id: &u64| AppStatus {
                id: AppId(*id),
                ..sample.clone()
            };
            ids.iter().map(app).collect()
        };
        let mut marks = Marks::default();
        let mut letters = |ids: &[u64]| -> String {
            marks.update(&apps(ids));
            let letter = |id: &u64| marks.get(AppId(*id)).unwrap().letter;
            ids.iter().map(letter).collect()
        };
        assert_eq!(letters(&[9, 12]), "AB");
        assert_eq!(letters(&[12, 13]), "BA");
        assert_eq!(letters(&[12, 13, 20]), "BAC");
        let many: Vec<u64> = (100..200).collect();
        assert_eq!(letters(&many).len(), 100);
    }
}
