//! What the user looks at: a page, a selected application, an order. Keys change it; nothing here draws or asks.

use crate::promise::Standing;
use mapper_control::schema::AppStatus;
use mapper_model::AppId;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use std::cmp::Reverse;

/// What fills the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Page {
    #[default]
    Machine,
    Help,
    /// One application at length.
    Explanation(AppId),
    /// The applications that have ended.
    History,
}

/// The order of the applications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Order {
    #[default]
    Arrival,
    Name,
    Cpus,
    Speed,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::Arrival => Self::Name,
            Self::Name => Self::Cpus,
            Self::Cpus => Self::Speed,
            Self::Speed => Self::Arrival,
        }
    }

    /// In words, after `sorted by `.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Name => "name",
            Self::Cpus => "CPUs, most first",
            Self::Speed => "speed, slowest first",
        }
    }

    pub(super) fn sorted(self, apps: &[AppStatus]) -> Vec<&AppStatus> {
        let mut apps: Vec<&AppStatus> = apps.iter().collect();
        match self {
            Self::Arrival => {}
            Self::Name => apps.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str())),
            Self::Cpus => apps.sort_by_key(|app| Reverse(app.cpu_count)),
            Self::Speed => {
                let speed = |app: &AppStatus| Standing::of(app).share().unwrap_or(f64::INFINITY);
                apps.sort_by(|a, b| speed(a).total_cmp(&speed(b)));
            }
        }
        // Whatever the order, what a user runs stands together.
        apps.sort_by_key(|app| app.user());
        apps
    }
}

/// What a key asks of the program itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Quit,
    Suspend,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Choice {
    pub(super) page: Page,
    pub(super) order: Order,
    selected: Option<AppId>,
    /// Lines above the screen, of a page that is text.
    pub(super) scrolled: usize,
}

impl Choice {
    /// The place of the selected application among those shown: the first where it has ended.
    pub(super) fn place(&self, shown: &[&AppStatus]) -> Option<usize> {
        let place = shown.iter().position(|app| Some(app.id) == self.selected);
        place.or((!shown.is_empty()).then_some(0))
    }

    /// Obeys a key.
    pub(super) fn press(&mut self, event: &Event, apps: &[AppStatus]) -> Option<Wish> {
        let Event::Key(key) = event else {
            return None;
        };
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Wish::Quit),
                KeyCode::Char('z') => Some(Wish::Suspend),
                _ => None,
            };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc if self.page == Page::Machine => {
                return Some(Wish::Quit);
            }
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace => self.turn_to(Page::Machine),
            KeyCode::Char('?') => self.turn_to(Page::Help),
            KeyCode::Char('h') => self.turn_to(Page::History),
            KeyCode::Char('s') if self.page == Page::Machine => self.order = self.order.next(),
            KeyCode::Enter if self.page == Page::Machine => {
                let shown = self.order.sorted(apps);
                if let Some(place) = self.place(&shown) {
                    self.turn_to(Page::Explanation(shown[place].id));
                }
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(-1, apps),
            KeyCode::Down | KeyCode::Char('j') => self.step(1, apps),
            KeyCode::PageUp => self.step(-10, apps),
            KeyCode::PageDown => self.step(10, apps),
            _ => {}
        }
        None
    }

    /// To another page, or back from it.
    fn turn_to(&mut self, page: Page) {
        self.page = match self.page == page {
            true => Page::Machine,
            false => page,
        };
        self.scrolled = 0;
    }

    fn step(&mut self, by: isize, apps: &[AppStatus]) {
        if self.page != Page::Machine {
            self.scrolled = self.scrolled.saturating_add_signed(by);
            return;
        }
        let shown = self.order.sorted(apps);
        let place = self.place(&shown).unwrap_or(0).saturating_add_signed(by);
        let place = place.min(shown.len().saturating_sub(1));
        self.selected = shown.get(place).map(|app| app.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use ratatui::crossterm::event::KeyEvent;

    fn press(choice: &mut Choice, code: KeyCode) -> Option<Wish> {
        let key = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        choice.press(&key, &samples::status().apps)
    }

    fn selected(choice: &Choice) -> String {
        let apps = samples::status().apps;
        let shown = choice.order.sorted(&apps);
        shown[choice.place(&shown).unwrap()].name.to_string()
    }

    #[test]
    fn keys_quit_suspend_and_all_others_do_nothing() {
        let mut choice = Choice::default();
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut choice, code), Some(Wish::Quit));
        }
        for (letter, wish) in [('c', Some(Wish::Quit)), ('z', Some(Wish::Suspend))] {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            assert_eq!(choice.press(&Event::Key(key), &[]), wish);
            assert_eq!(press(&mut choice, KeyCode::Char(letter)), None);
        }
        assert_eq!(choice.press(&Event::Resize(10, 10), &[]), None);
        assert_eq!(choice, Choice::default());
    }

    #[test]
    fn arrows_select_and_enter_looks_closer() {
        let mut choice = Choice::default();
        assert_eq!(selected(&choice), "md");
        press(&mut choice, KeyCode::Up);
        assert_eq!(selected(&choice), "md");
        press(&mut choice, KeyCode::Down);
        assert_eq!(selected(&choice), "cg");
        press(&mut choice, KeyCode::Enter);
        let cg = samples::status().apps[1].id;
        assert_eq!(choice.page, Page::Explanation(cg));
        // There arrows scroll, and `q` leads back.
        press(&mut choice, KeyCode::Down);
        assert_eq!((choice.scrolled, selected(&choice)), (1, "cg".to_owned()));
        assert_eq!(press(&mut choice, KeyCode::Char('q')), None);
        assert_eq!((choice.page, choice.scrolled), (Page::Machine, 0));
        press(&mut choice, KeyCode::PageDown);
        assert_eq!(selected(&choice), "a-program-with-a-rather-long-name");
    }

    #[test]
    fn a_key_that_opens_a_page_closes_it_again() {
        let mut choice = Choice::default();
        for (letter, page) in [('?', Page::Help), ('h', Page::History)] {
            press(&mut choice, KeyCode::Char(letter));
            assert_eq!(choice.page, page);
            press(&mut choice, KeyCode::Char(letter));
            assert_eq!(choice.page, Page::Machine);
        }
    }

    #[test]
    fn in_every_order_what_a_user_runs_stands_together() {
        let mut apps = samples::status().apps;
        let (first, last) = (0, apps.len() - 1);
        apps[first].uid = 2000;
        apps[last].uid = 2000;
        for order in [Order::Arrival, Order::Name, Order::Cpus, Order::Speed] {
            let sorted = order.sorted(&apps);
            let uids: Vec<u32> = sorted.iter().map(|app| app.uid).collect();
            assert!(uids.is_sorted(), "{order:?}: {uids:?}");
        }
    }

    #[test]
    fn the_order_changes_and_the_selection_stays_with_its_program() {
        let mut choice = Choice::default();
        let first = |choice: &Choice| {
            let apps = samples::status().apps;
            choice.order.sorted(&apps)[0].name.to_string()
        };
        press(&mut choice, KeyCode::Down);
        for (order, name) in [
            (Order::Name, "a-program-with-a-rather-long-name"),
            (Order::Cpus, "md"),
            (Order::Speed, "cg"),
            (Order::Arrival, "md"),
        ] {
            press(&mut choice, KeyCode::Char('s'));
            assert_eq!((choice.order, first(&choice).as_str()), (order, name));
            assert_eq!(selected(&choice), "cg");
        }
    }
}
