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

/// The mark of each application. When there are more than letters, several share one.
pub(super) fn marks(apps: &[AppStatus]) -> BTreeMap<AppId, Mark> {
    let mut by_id: Vec<AppId> = apps.iter().map(|app| app.id).collect();
    by_id.sort_unstable();
    let mut taken = [false; LETTERS.len()];
    let mut marks = BTreeMap::new();
    for id in by_id {
        let wanted = usize::try_from(id.0.saturating_sub(1)).unwrap_or(0) % LETTERS.len();
        let place = (0..LETTERS.len())
            .map(|step| (wanted + step) % LETTERS.len())
            .find(|place| !taken[*place])
            .unwrap_or(wanted);
        taken[place] = true;
        let mark = Mark {
            letter: char::from(LETTERS[place]),
            colour: COLOURS[place % COLOURS.len()],
        };
        marks.insert(id, mark);
    }
    marks
}
