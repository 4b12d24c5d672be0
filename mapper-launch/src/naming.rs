//! The name of an application whose user gave none: its program's, or that of the script or module which an interpreter
//! runs.

use mapper_model::AppName;
use std::ffi::OsString;
use std::path::Path;

/// Where the command line of an interpreter has the name of the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interpreter {
    /// After its options; `-m` has a module.
    Python,
    /// After its options.
    Shell,
    /// The first word that ends like a script: options and their values differ too much.
    Other,
}

impl Interpreter {
    fn of(program: &str) -> Option<Self> {
        // python3.12, pypy3
        let kind = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match kind {
            "python" | "pypy" => Some(Self::Python),
            "sh" | "bash" | "dash" | "zsh" | "ksh" => Some(Self::Shell),
            "perl" | "ruby" | "node" | "Rscript" | "julia" | "lua" | "php" => Some(Self::Other),
            _ => None,
        }
    }
}

const ENDINGS: [&str; 12] = [
    "py", "pyw", "pyc", "sh", "bash", "zsh", "pl", "rb", "js", "R", "jl", "lua",
];

/// The name for a command.
#[must_use]
pub fn name_of(command: &[OsString]) -> AppName {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let words = after_env(&words);
    let program = words.first().copied().map(file_name).unwrap_or_default();
    let script = Interpreter::of(program).and_then(|kind| script(kind, &words[1..]));
    AppName::from_lossy(script.unwrap_or(program))
}

/// What `env`, if it comes first, executes.
fn after_env<'a, 'w>(words: &'a [&'w str]) -> &'a [&'w str] {
    let [first, rest @ ..] = words else {
        return words;
    };
    if file_name(first) != "env" {
        return words;
    }
    let mut place = 0;
    while let Some(word) = rest.get(place) {
        place += match *word {
            "-u" | "--unset" | "-C" | "--chdir" => 2,
            word if word.starts_with('-') || word.contains('=') => 1,
            _ => return &rest[place..],
        };
    }
    words
}

fn script<'w>(interpreter: Interpreter, words: &[&'w str]) -> Option<&'w str> {
    let mut words = words.iter().copied();
    if interpreter == Interpreter::Other {
        return words.find(|word| stem(word) != file_name(word)).map(stem);
    }
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-') else {
            return Some(stem(word));
        };
        match option {
            // The program comes from standard input.
            "" => return None,
            "-" => return words.next().map(stem),
            "-rcfile" | "-init-file" | "-check-hash-based-pycs" => drop(words.next()),
            long if long.starts_with('-') => {}
            // Letters; one of these takes the rest of the word, or the next word.
            letters => match letters.split_once(|c: char| takes_value(interpreter, c)) {
                None if interpreter == Interpreter::Shell && letters.contains(['c', 's']) => {
                    return None;
                }
                None => {}
                Some((before, rest)) => {
                    let value = Some(rest).filter(|rest| !rest.is_empty());
                    let value = value.or_else(|| words.next());
                    match letters[before.len()..].chars().next() {
                        Some('m') => return value,
                        Some('c') => return None,
                        _ => {}
                    }
                }
            },
        }
    }
    None
}

const fn takes_value(interpreter: Interpreter, letter: char) -> bool {
    match interpreter {
        Interpreter::Python => matches!(letter, 'm' | 'c' | 'W' | 'X'),
        Interpreter::Shell => matches!(letter, 'o' | 'O'),
        Interpreter::Other => false,
    }
}

fn file_name(path: &str) -> &str {
    let name = Path::new(path).file_name();
    name.and_then(|name| name.to_str()).unwrap_or_default()
}

/// The file's name without the ending of a script.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() && ENDINGS.contains(&ending) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_named_by_its_script_or_module() {
        for (line, name) in [
            ("python fit_a.py", "fit_a"),
            ("/usr/bin/python3.12 -u dir/fit_a.py --m x", "fit_a"),
            ("python3 -m pkg.mod --deep", "pkg.mod"),
            ("python -um pkg.mod", "pkg.mod"),
            ("python -mpkg.mod", "pkg.mod"),
            ("python -W ignore -X dev fit.v2.py", "fit.v2"),
            ("pypy3 run", "run"),
            ("bash x.sh", "x"),
            ("sh -e -o pipefail dir/x.sh", "x"),
            ("bash -- x.v1", "x.v1"),
            ("env python3 script.py", "script"),
            ("/usr/bin/env -u A -i B=c python3 script.py", "script"),
            ("julia -t 4 fit.jl", "fit"),
            ("Rscript --vanilla fit.R 3", "fit"),
        ] {
            assert_eq!(named(line), name, "{line}");
        }
    }

    #[test]
    fn what_runs_no_script_keeps_its_own_name() {
        for (line, name) in [
            ("python", "python"),
            ("python3.12 -i", "python3.12"),
            ("python -c print(1) a.py", "python"),
            ("python -uc print(1)", "python"),
            ("python - a.py", "python"),
            ("bash -lc make", "bash"),
            ("sh -s a.sh", "sh"),
            ("perl -e print", "perl"),
            ("dir/md --steps 5", "md"),
            ("./fit.py", "fit.py"),
            ("env", "env"),
            ("env A=b", "env"),
            ("env A=b ./md", "md"),
            ("/", "_"),
        ] {
            assert_eq!(named(line), name, "{line}");
        }
    }

    fn named(line: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
        name_of(&words).as_str().to_owned()
    }
}
