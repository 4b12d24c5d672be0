//! Takes out of a report what says who someone is: users, the machine's name, command lines.
//!
//! A user is the same pseudonym in the whole report, a number in order of appearance: a hash of a name could be guessed.

use serde_json::Value;

/// A user by name and number, as far as known.
#[derive(Clone, PartialEq, Eq, Debug)]
struct User {
    name: Option<String>,
    uid: Option<u32>,
}

/// What is hidden.
#[derive(Clone, Debug, Default)]
pub(super) struct Hiding {
    users: Vec<User>,
    host: Option<String>,
}

impl Hiding {
    /// Hides the name of this machine, too.
    pub(super) fn of_host(host: String) -> Self {
        // A container may be called anything; a word of one letter or two stands in every text.
        let host = Some(host).filter(|host| host.len() > 2 && host != "localhost");
        Self {
            users: Vec::new(),
            host,
        }
    }

    /// From here on the user is hidden wherever the name or the number of one stands. Root is no secret.
    pub(super) fn add(&mut self, name: Option<&str>, uid: Option<u32>) {
        let name = name.filter(|name| !name.is_empty());
        if uid == Some(0) || name == Some("root") || (name.is_none() && uid.is_none()) {
            return;
        }
        let user = User {
            name: name.map(str::to_owned),
            uid,
        };
        if !self.users.contains(&user) {
            self.users.push(user);
        }
    }

    fn pseudonym(&self, is_it: impl Fn(&User) -> bool) -> Option<usize> {
        self.users.iter().position(is_it).map(|place| place + 1)
    }

    /// The text without users and the machine's name.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut before = "";
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match is_part(first) {
                true => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()),
                false => first.len_utf8(),
            };
            let (word, after) = rest.split_at(length);
            out.push_str(&self.word(word, before));
            before = &text[..text.len() - after.len()];
            rest = after;
        }
        out
    }

    /// A word, which stands after `before`.
    fn word(&self, word: &str, before: &str) -> String {
        // `name.` at the end of a sentence.
        let (bare, dots) = word.split_at(word.trim_end_matches('.').len());
        if self.host.as_deref() == Some(bare) {
            return format!("host{dots}");
        }
        if let Some(number) = self.pseudonym(|user| user.name.as_deref() == Some(bare)) {
            return format!("user{number}{dots}");
        }
        if before.ends_with("/home/") && !bare.is_empty() {
            return format!("someone{dots}");
        }
        // user-1000.slice, mapper-1000, user@1000.service, /run/user/1000, uid=1000, "uid":1000
        let (label, number) = match bare.split_once('-') {
            Some((label @ ("user" | "mapper"), number)) => (format!("{label}-"), number),
            _ if ["user@", "/user/", "uid=", "uid\":", "uid "]
                .iter()
                .any(|end| before.ends_with(end)) =>
            {
                (String::new(), bare)
            }
            _ => return word.to_owned(),
        };
        let digits = number.find(|c: char| !c.is_ascii_digit());
        let (digits, tail) = number.split_at(digits.unwrap_or(number.len()));
        let Ok(uid) = digits.parse::<u32>() else {
            return word.to_owned();
        };
        match uid {
            0 => word.to_owned(),
            _ => format!("{label}{}{tail}{dots}", self.shown_uid(uid)),
        }
    }

    fn shown_uid(&self, uid: u32) -> String {
        let number = self.pseudonym(|user| user.uid == Some(uid));
        number.map_or_else(|| "UID".to_owned(), |number| format!("UID{number}"))
    }

    /// The value with every text without users, and without the command lines of applications.
    pub(super) fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(values) => values.into_iter().map(|value| self.json(value)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(key, value)| {
                    let hidden = match (key.as_str(), value) {
                        ("command", _) => "left out".into(),
                        ("uid", Value::Number(uid)) => match uid.as_u64() {
                            Some(0) => 0.into(),
                            uid => {
                                let uid = uid.and_then(|uid| u32::try_from(uid).ok());
                                self.shown_uid(uid.unwrap_or(u32::MAX)).into()
                            }
                        },
                        (_, value) => self.json(value),
                    };
                    (key, hidden)
                })
                .collect(),
            other => other,
        }
    }

    /// A configuration without comments, and without the names in its rules.
    pub(super) fn configuration(&mut self, text: &str) -> String {
        // An error of parsing would show a piece of the text.
        let Ok(mut table) = text.parse::<toml::Table>() else {
            return "left out: it is no valid TOML; see `mapperd --check-config`\n".to_owned();
        };
        for list in ["access", "program"] {
            let rules = table.get_mut(list).and_then(toml::Value::as_array_mut);
            for rule in rules.into_iter().flatten() {
                for key in ["users", "groups"] {
                    let names = rule.get_mut(key).and_then(toml::Value::as_array_mut);
                    for name in names.into_iter().flatten() {
                        *name = self.rule_name(key, name).into();
                    }
                }
            }
        }
        let written = toml::to_string(&table).unwrap_or_default();
        self.text(&written)
    }

    fn rule_name(&mut self, key: &str, name: &toml::Value) -> String {
        let Some(name) = name.as_str() else {
            return "left out".to_owned();
        };
        if key == "groups" {
            return "a group".to_owned();
        }
        match name.parse() {
            Ok(uid) => {
                self.add(None, Some(uid));
                self.shown_uid(uid)
            }
            Err(_) => {
                self.add(Some(name), None);
                name.to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hiding() -> Hiding {
        let mut hiding = Hiding::of_host("node17".to_owned());
        hiding.add(Some("ana"), Some(1001));
        hiding.add(Some("root"), Some(0));
        hiding.add(None, Some(1002));
        hiding
    }

    #[test]
    fn users_and_the_machine_are_pseudonyms_wherever_they_stand_alone() {
        let hiding = hiding();
        for (text, shown) in [
            ("not adopted for ana.", "not adopted for user1."),
            ("/home/ana/bin: banana", "/home/user1/bin: banana"),
            ("/home/bob/x", "/home/someone/x"),
            ("node17: uid=1001 by=ana", "host: uid=UID1 by=user1"),
            (
                "user.slice/user-1001.slice/user@1001.service",
                "user.slice/user-UID1.slice/user@UID1.service",
            ),
            (
                "/run/user/1002/mapper /tmp/mapper-1003",
                "/run/user/UID2/mapper /tmp/mapper-UID",
            ),
            ("root uid=0 interval=1000", "root uid=0 interval=1000"),
            ("ünï → 1001 ana", "ünï → 1001 user1"),
        ] {
            assert_eq!(hiding.text(text), shown);
        }
    }

    #[test]
    fn a_reply_keeps_all_but_command_lines_and_users() {
        let reply = json!({"apps": [{"name": "cg", "uid": 1001, "command": "./cg --key s3cret",
            "adopted": {"cgroup": "user.slice/user-1001.slice"}, "cpus": "0-3", "pid": 1001}], "uid": 0});
        let hidden = json!({"apps": [{"name": "cg", "uid": "UID1", "command": "left out",
            "adopted": {"cgroup": "user.slice/user-UID1.slice"}, "cpus": "0-3", "pid": 1001}], "uid": 0});
        assert_eq!(hiding().json(reply), hidden);
    }

    #[test]
    fn a_configuration_keeps_its_values_and_no_comment_or_name() {
        let text = "# ask bob, 555-1234\ninterval = \"1s\" # bob\n[[access]]\nusers = [\"bob\", \"1002\"]\n\
                    groups = [\"payroll\"]\nmax_qos = 0.5\n";
        let shown = hiding().configuration(text);
        for part in [
            "interval = \"1s\"",
            "max_qos = 0.5",
            "user3",
            "UID2",
            "a group",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        for part in ["bob", "555", "payroll", "1002"] {
            assert!(!shown.contains(part), "{part}: {shown}");
        }
        assert!(!hiding().configuration("users = bob").contains("bob"));
    }
}
