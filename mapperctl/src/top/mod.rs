//! `mapperctl top`: which application has which CPUs, now: a picture of the machine above a table of the applications,
//! drawn anew from every status. When the daemon goes away the last picture stays, marked as old.

mod machine_map;
mod marks;
mod screen;

use self::marks::Palette;
use self::screen::{Daemon, Screen};
use anyhow::{Context, bail};
use mapper_control::schema::Status;
use mapper_control::{Client, ClientError};
use mapper_manual::wording;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the daemon may take for an answer: keys wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Quit,
    Up,
    Down,
}

pub(crate) fn run(socket: &Path, every: Duration) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let ask = wording::ask();
        bail!("top draws on a terminal, and this is none; use `{ask} status`");
    }
    let endings = Endings::hold().context("hold signals back")?;
    let palette = Palette::of_environment();
    let mut terminal = ratatui::try_init().context("prepare the terminal")?;
    let outcome = watch(&mut terminal, socket, every, palette, &endings);
    // Whatever happened: the shell gets its terminal back.
    ratatui::restore();
    // One that has come ends the process now, as it would have.
    drop(endings);
    outcome
}

/// The signals that end a program, held back so that none does before the terminal is as it was.
struct Endings {
    before: SigSet,
    held: SignalFd,
}

impl Endings {
    fn hold() -> nix::Result<Self> {
        let held: SigSet = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT]
            .into_iter()
            .collect();
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let held = SignalFd::with_flags(&held, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { before, held })
    }

    /// The one that has come, which stays to be delivered.
    fn has_come(&self) -> bool {
        let mut found = [PollFd::new(self.held.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut found, PollTimeout::ZERO), Ok(1..))
    }
}

impl Drop for Endings {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    socket: &Path,
    every: Duration,
    palette: Palette,
    endings: &Endings,
) -> anyhow::Result<()> {
    let mut line = Line::default();
    let mut skipped = 0usize;
    loop {
        line.ask(socket);
        let next = Instant::now() + every;
        loop {
            let apps = line.status.as_ref().map_or(0, |status| status.apps.len());
            skipped = skipped.min(apps.saturating_sub(1));
            let screen = Screen {
                status: line.status.as_ref(),
                daemon: match &line.trouble {
                    None => Daemon::Answers,
                    Some(why) => Daemon::Away(why),
                },
                palette,
                skipped,
            };
            terminal
                .draw(|frame| screen::draw(frame, &screen))
                .context("draw")?;
            if endings.has_come() {
                return Ok(());
            }
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left.min(LOOK)).context("wait for a key")? {
                if left > LOOK {
                    continue;
                }
                break;
            }
            match wish(&event::read().context("read a key")?) {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Up) => skipped = skipped.saturating_sub(1),
                Some(Wish::Down) => skipped += 1,
                // Another size, or a key that means nothing: it is drawn anew.
                None => {}
            }
        }
    }
}

fn wish(event: &Event) -> Option<Wish> {
    let Event::Key(key) = event else {
        return None;
    };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Some(Wish::Quit),
        KeyCode::Up | KeyCode::Char('k') => Some(Wish::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Wish::Down),
        _ => None,
    }
}

#[derive(Default)]
struct Line {
    client: Option<Client>,
    status: Option<Status>,
    trouble: Option<String>,
}

impl Line {
    fn ask(&mut self, socket: &Path) {
        match self.try_ask(socket) {
            Ok(status) => {
                self.status = Some(status);
                self.trouble = None;
            }
            Err(error) => {
                self.client = None;
                self.trouble = Some(error.to_string());
            }
        }
    }

    fn try_ask(&mut self, socket: &Path) -> Result<Status, ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(socket, PATIENCE)?),
        };
        client.status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn keys_quit_and_scroll_and_all_others_do_nothing() {
        let key = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(key(code, KeyModifiers::NONE), Some(Wish::Quit));
        }
        let c = KeyCode::Char('c');
        assert_eq!(key(c, KeyModifiers::CONTROL), Some(Wish::Quit));
        assert_eq!(key(c, KeyModifiers::NONE), None);
        assert_eq!(key(KeyCode::Down, KeyModifiers::NONE), Some(Wish::Down));
        assert_eq!(wish(&Event::Resize(10, 10)), None);
    }

    #[test]
    fn a_daemon_that_is_not_there_is_reported_and_tried_again() {
        let place = tempfile::tempdir().unwrap();
        let mut line = Line::default();
        for _ in 0..2 {
            line.ask(&place.path().join("s"));
            assert!(line.status.is_none());
            assert!(line.trouble.as_ref().is_some_and(|why| !why.is_empty()));
        }
    }
}
