//! What whoever installs has to do afterwards, or as root, in words to be copied.

use super::{Args, FILES, Folders, SONAME};
use std::path::Path;

/// The command that does the rest as root, without building anything as root.
pub(super) fn privileged_line(args: &Args, built: &Path) -> String {
    let task = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
    let mut line = format!(
        "sudo {} install --prefix {} --built {}",
        quoted(&task),
        quoted(&args.prefix),
        quoted(built)
    );
    for (flag, value) in [
        ("--destdir", &args.destdir),
        ("--libdir", &args.libdir),
        ("--sysconfdir", &args.sysconfdir),
    ] {
        if let Some(value) = value {
            line += &format!(" {flag} {}", quoted(value));
        }
    }
    line
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

impl Folders {
    /// What is left to be done for a prefix on this system.
    pub(super) fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        let lib = self.lib.display();
        // The loader's own folders are read without its cache; Debian lists the last one in ld.so.conf.d.
        if self.lib == Path::new("/usr/local/lib") {
            hints.push(format!(
                "run `ldconfig` as root, so that programs find {lib}/{SONAME}"
            ));
        } else if !self.lib.starts_with("/usr/lib") && !self.lib.starts_with("/lib") {
            hints.push(format!(
                "programs find {SONAME} with LD_LIBRARY_PATH={lib}, or when that folder stands in \
                 /etc/ld.so.conf.d and `ldconfig` has been run"
            ));
        }
        let units = self.prefix.join("lib/systemd/system");
        if !["/usr", "/usr/local"]
            .map(Path::new)
            .contains(&&*self.prefix)
        {
            let names: Vec<String> = FILES
                .iter()
                .filter_map(|(_, _, name, _)| name.strip_prefix("lib/systemd/system/"))
                .map(|name| units.join(name).display().to_string())
                .collect();
            hints.push(format!(
                "systemd does not look into {}; run this as root: systemctl link {}",
                units.display(),
                names.join(" ")
            ));
        }
        let hidden = ["/home", "/root", "/run/user"];
        let is_hidden = |folder: &Path| hidden.iter().any(|home| folder.starts_with(home));
        if is_hidden(&self.prefix) || is_hidden(&self.sysconf) {
            hints.push(
                "mapperd.service sees nothing below /home, /root and /run/user: install elsewhere, or \
                 give it a drop-in with ProtectHome=read-only"
                    .to_owned(),
            );
        }
        hints
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_line_for_root_keeps_paths_with_blanks_in_one_word() {
        assert_eq!(quoted(Path::new("/usr/local")), "/usr/local");
        let odd = "/home/a b/it's $HOME";
        let word = quoted(Path::new(odd));
        let mut shell = Command::new("sh");
        let said = shell
            .args(["-c", &format!("printf %s {word}")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap(), odd);
    }

    #[test]
    fn what_is_left_to_do_is_told_for_each_prefix() {
        let told = |prefix: &str| {
            Folders::new(prefix.into(), None, None)
                .unwrap()
                .hints()
                .join("\n")
        };
        assert_eq!(told("/usr"), "");
        let local = told("/usr/local");
        assert!(
            local.contains("run `ldconfig`") && !local.contains("systemctl"),
            "{local}"
        );
        let opt = told("/opt/mapper");
        let link = "systemctl link /opt/mapper/lib/systemd/system/mapper.slice";
        assert!(
            opt.contains(link) && opt.contains("LD_LIBRARY_PATH=/opt/mapper/lib"),
            "{opt}"
        );
        assert!(!opt.contains("ProtectHome"), "{opt}");
        assert!(told("/home/u/mapper").contains("ProtectHome=read-only"));
    }
}
