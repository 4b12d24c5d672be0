//! `mapperctl top`: which application has which CPUs, now: a picture of the machine above a table of the applications,
//! drawn anew from every status. When the daemon goes away the last picture stays, marked as old.

mod choice;
mod machine_map;
mod marks;
mod screen;
mod source;
mod speeds;

use self::choice::{Choice, Wish};
use self::marks::{Marks, Palette};
use self::screen::Screen;
use self::source::Source;
use self::speeds::Speeds;
use anyhow::{Context, bail};
use mapper_manual::wording;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(socket: &Path, every: Duration) -> anyhow::Result<()> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let ask = wording::ask();
        bail!("top draws on a terminal, and this is none; use `{ask} status`");
    }
    let endings = Endings::hold().context("hold signals back")?;
    let outcome = watch(socket, every, &endings);
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

fn prepared() -> anyhow::Result<DefaultTerminal> {
    ratatui::try_init().context("prepare the terminal")
}

fn watch(socket: &Path, every: Duration, endings: &Endings) -> anyhow::Result<()> {
    let palette = Palette::of_environment();
    let mut terminal = prepared()?;
    let mut source = Source::default();
    let (mut choice, mut marks, mut speeds) =
        (Choice::default(), Marks::default(), Speeds::default());
    loop {
        source.ask(socket, choice.page);
        if source.trouble.is_none() {
            marks.update(source.apps());
            speeds.update(source.apps());
        }
        let next = Instant::now() + every;
        loop {
            let screen = Screen {
                source: &source,
                choice: &choice,
                marks: &marks,
                speeds: &speeds,
                palette,
            };
            let mut scrolled = 0;
            terminal
                .draw(|frame| scrolled = screen::draw(frame, &screen))
                .context("draw")?;
            // Not beyond the end of the text.
            choice.scrolled = scrolled;
            if endings.has_come() {
                return Ok(());
            }
            let left = next.saturating_duration_since(Instant::now());
            match keyboard(left.min(LOOK)).context("wait for a key")? {
                Keyboard::Gone => return Ok(()),
                Keyboard::Silent if left > LOOK => continue,
                Keyboard::Silent => break,
                Keyboard::Pressed => {}
            }
            let page = choice.page;
            while event::poll(Duration::ZERO).context("wait for a key")? {
                // Another size, or a key that means nothing: it is drawn anew.
                match choice.press(&event::read().context("read a key")?, source.apps()) {
                    Some(Wish::Quit) => return Ok(()),
                    Some(Wish::Suspend) => {
                        ratatui::restore();
                        // As the terminal does to the whole job; execution continues here when the shell continues it.
                        kill(Pid::from_raw(0), Signal::SIGTSTP).context("suspend")?;
                        terminal = prepared()?;
                    }
                    None => {}
                }
            }
            // What another page shows is asked for at once.
            if choice.page != page {
                break;
            }
        }
    }
}

/// What came of waiting for a key.
enum Keyboard {
    Pressed,
    Silent,
    /// The terminal is no more.
    Gone,
}

/// Waits for a key. Not by crossterm, which reads a terminal that is gone again and again.
fn keyboard(limit: Duration) -> nix::Result<Keyboard> {
    let stdin = std::io::stdin();
    let mut found = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
    match poll(&mut found, limit) {
        Ok(0) | Err(Errno::EINTR) => return Ok(Keyboard::Silent),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    match found[0].revents() {
        Some(events) if !events.intersects(gone) => Ok(Keyboard::Pressed),
        _ => Ok(Keyboard::Gone),
    }
}
