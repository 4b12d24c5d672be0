//! Manual pages and shell completions, made from the definition of a program's command line.
//!
//! Only the program has that definition, so it writes them: with the hidden option `--write-manual FOLDER` it puts a page
//! for itself and for each of its subcommands, and completions for bash, zsh and fish, into that folder. `cargo xtask
//! install` and `dist` call it. The same definition makes the same files, byte for byte. [`wording`] has the names that
//! messages call the programs by.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use clap_complete::{CompleteEnv, Shell};

mod configuration;
mod sections;
pub mod wording;

/// The option's name.
pub const OPTION: &str = "write-manual";

/// The section of the manual that a program belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Section {
    /// 1: programs for all users.
    Users,
    /// 8: programs for the administrator.
    Administration,
}

impl Section {
    fn digit(self) -> &'static str {
        match self {
            Self::Users => "1",
            Self::Administration => "8",
        }
    }
}

/// Where a shell has the completions of a program from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Completions {
    /// They are listed in the script.
    Listed,
    /// The script asks the program each time ([`complete`]), by this variable of the environment.
    Asked(&'static str),
}

/// Answers a shell that asks for completions by `variable`. Returns whether one did: then the program's work is done.
///
/// # Errors
/// If the variable names an unknown shell.
pub fn complete(
    variable: &'static str,
    words: &[std::ffi::OsString],
    definition: fn() -> Command,
) -> Result<bool, clap::Error> {
    let here = std::env::current_dir().ok();
    let done = CompleteEnv::with_factory(definition)
        .var(variable)
        .try_complete(words, here.as_deref())?;
    // Nothing else would in a program without a `main` of Rust's.
    io::stdout().flush()?;
    Ok(done)
}

/// The folder of `--write-manual FOLDER`, if that is the whole command line `words` after the program's name.
pub fn asked_for(words: &[std::ffi::OsString]) -> Option<&Path> {
    match words {
        [_, option, folder] if option.to_str()?.strip_prefix("--")? == OPTION => {
            Some(Path::new(folder))
        }
        _ => None,
    }
}

/// Writes all documents of a program into `folder`, which is created if it is missing; returns the files.
///
/// # Errors
/// If a file cannot be written; the error names it.
pub fn write(
    command: Command,
    section: Section,
    completions: Completions,
    folder: &Path,
) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).map_err(|error| naming(folder, &error))?;
    let program = command.get_name().to_owned();
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut written = Vec::new();
    match completions {
        Completions::Listed => {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                // Generators change the command they are given.
                let path =
                    clap_complete::generate_to(shell, &mut command.clone(), &program, folder)
                        .map_err(|error| naming(folder, &error))?;
                written.push(path);
            }
        }
        Completions::Asked(variable) => {
            // In zsh the first completion executes the script instead of the function that it defines.
            let first = format!(
                "[[ $funcstack[1] == _{program} ]] && _clap_dynamic_completer_{program} \"$@\"\n"
            );
            let shells: [(&dyn EnvCompleter, String, &str); 3] = [
                (&Bash, format!("{program}.bash"), ""),
                (&Zsh, format!("_{program}"), &first),
                (&Fish, format!("{program}.fish"), ""),
            ];
            for (shell, name, more) in shells {
                let (path, mut script) = (folder.join(name), Vec::new());
                shell.write_registration(variable, &program, &program, &program, &mut script)?;
                script.extend_from_slice(more.as_bytes());
                fs::write(&path, script).map_err(|error| naming(&path, &error))?;
                written.push(path);
            }
        }
    }
    // A page for `help` would be that of the program.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let program = Program {
        name: &program,
        version: &version,
        section,
        folder,
    };
    written.extend(program.write_pages(&command)?);
    Ok(written)
}

/// Writes the page about the words of mapper into `folder`; returns its path.
///
/// # Errors
/// If it cannot be written; the error names it.
pub fn write_words(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("mapper.7");
    fs::write(&path, include_str!("mapper.7")).map_err(|error| naming(&path, &error))?;
    Ok(path)
}

/// Writes the page about a configuration file of this name, out of its commented text, into `folder`; returns its path.
///
/// # Errors
/// If it cannot be written; the error names it.
pub fn write_configuration(
    name: &str,
    version: &str,
    text: &str,
    folder: &Path,
) -> io::Result<PathBuf> {
    let path = folder.join(format!("{name}.5"));
    let page = configuration::page(name, version, text).render();
    fs::write(&path, without_date(&page)).map_err(|error| naming(&path, &error))?;
    Ok(path)
}

/// The program whose pages are written.
struct Program<'p> {
    name: &'p str,
    version: &'p str,
    section: Section,
    folder: &'p Path,
}

impl Program<'_> {
    /// Its own page, and one for each of its tasks; returns them.
    fn write_pages(&self, command: &Command) -> io::Result<Vec<PathBuf>> {
        let tasks = command.get_subcommands().filter(|task| !task.is_hide_set());
        let tasks = tasks.map(|task| self.write_page(task, task.get_name()));
        std::iter::once(self.write_page(command, self.name))
            .chain(tasks)
            .collect()
    }

    /// The page of a task, or of the program, which has its own name for one.
    fn write_page(&self, command: &Command, task: &str) -> io::Result<PathBuf> {
        let (program, section) = (self.name, self.section.digit());
        let name = match task == program {
            true => program.to_owned(),
            false => format!("{program}-{task}"),
        };
        let path = self.folder.join(format!("{name}.{section}"));
        let mut page = Vec::new();
        // An empty date, so that the page does not change from day to day.
        let man = clap_mangen::Man::new(command.clone())
            .title(name.to_uppercase())
            .section(section)
            .date("")
            .source(format!("mapper {}", self.version))
            .manual(match self.section {
                Section::Users => "User Commands",
                Section::Administration => "System Administration",
            });
        man.render_title(&mut page)?;
        man.render_name_section(&mut page)?;
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        if command.has_subcommands() {
            man.render_subcommands_section(&mut page)?;
        }
        sections::written(program, task).to_writer(&mut page)?;
        let page = without_date(&String::from_utf8_lossy(&page));
        fs::write(&path, page).map_err(|error| naming(&path, &error))?;
        Ok(path)
    }
}

/// The page with an empty date in its title, which `roff` leaves out, so that what comes after would be the date.
fn without_date(page: &str) -> String {
    let lines = page
        .split_inclusive('\n')
        .map(|line| match line.starts_with(".TH ") {
            true => line.replacen("  ", " \"\" ", 1),
            false => line.to_owned(),
        });
    lines.collect()
}

fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use std::ffi::OsString;

    fn program() -> Command {
        Command::new("example")
            .version("1.2")
            .about("Shows things")
            .arg(Arg::new("socket").long("socket").help("Where it listens"))
            .subcommand(Command::new("status").about("What runs"))
            .subcommand(Command::new("secret").hide(true))
    }

    fn documents(folder: &Path) -> Vec<String> {
        let listed = Completions::Listed;
        let written = write(program(), Section::Administration, listed, folder).unwrap();
        let names = written.iter().map(|path| path.file_name().unwrap());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn every_subcommand_that_is_shown_has_a_page_and_every_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        let names = documents(folder.path());
        assert_eq!(
            names.join(" "),
            "_example example-status.8 example.8 example.bash example.fish"
        );
        let page = fs::read_to_string(folder.path().join("example.8")).unwrap();
        for text in [
            ".TH EXAMPLE 8 \"\" \"mapper 1.2\"",
            "Where it listens",
            "example\\-status(8)",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        let page = fs::read_to_string(folder.path().join("example-status.8")).unwrap();
        assert!(page.contains(".TH EXAMPLE-STATUS 8"), "{page}");
    }

    #[test]
    fn the_same_command_line_makes_the_same_files() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for name in documents(folders[0].path()) {
            documents(folders[1].path());
            let [first, second] =
                [0, 1].map(|i: usize| fs::read(folders[i].path().join(&name)).unwrap());
            assert_eq!(first, second, "{name}");
        }
    }

    #[test]
    fn documents_are_asked_for_by_nothing_but_the_option_and_its_folder() {
        let asked = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            asked_for(&words).map(Path::to_owned)
        };
        assert_eq!(asked(&["x", "--write-manual", "/f"]), Some("/f".into()));
        for words in [
            &["x"][..],
            &["x", "--write-manual"],
            &["x", "--", "p", "--write-manual"],
            &["x", "p", "/f"],
        ] {
            assert_eq!(asked(words), None, "{words:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let error = write(
            program(),
            Section::Users,
            Completions::Listed,
            Path::new("/proc/none"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("/proc/none"), "{error}");
    }
}
