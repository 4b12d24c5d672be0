//! Access rules: what each user may request and see.
//!
//! Each request is checked against a *grant*, since a promise of 100 %, a weight of 100 or a minimum of all CPUs
//! would take from all other users. Grants are rules in the configuration (`[[access]]`); the first that names the
//! user, or one of the user's groups, applies, else the default. Root and the daemon's user may do everything.
//!
//! Users and groups are those that the kernel reports for the connection. An unknown name in a rule is an error,
//! since a rule that silently applies to no user may permit what it was meant to forbid.

use crate::config::peer::Peer;
use mapper_model::Weight;
use nix::unistd::{Group, User};
use schemars::JsonSchema;
use serde::Deserialize;

/// A rule: which users it applies to, and what they may do.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AccessRule {
    /// Users it is for, by name or number.
    pub(crate) users: Vec<String>,
    /// Groups whose members it is for, by name or number. Without users and groups it is for every user.
    pub(crate) groups: Vec<String>,
    /// Whether they may launch programs at all.
    pub(crate) launch: bool,
    /// The highest promise they may ask for.
    #[schemars(range(min = 0.0, max = 1.0), extend("exclusiveMinimum" = 0.0))]
    pub(crate) max_qos: f64,
    /// What all applications of such a user weigh together, against those of another user, and against each of root's.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub(crate) weight: f64,
    /// The largest weight of an application.
    #[schemars(range(min = 0.01, max = 100.0))]
    pub(crate) max_weight: f64,
    /// The largest number of CPUs they may ask to have at least; 4, or `max_cpus` if that is less.
    #[schemars(range(min = 1))]
    pub(crate) max_min_cpus: Option<u32>,
    /// The most CPUs that an application of theirs is given.
    #[schemars(range(min = 1))]
    pub(crate) max_cpus: Option<u32>,
    /// How many applications they may have at a time.
    pub(crate) max_applications: u32,
    /// What they may have done with memory: "keep" it where it is, or "any" (`--mem local`, `--mem interleave`).
    pub(crate) mem: MemoryGrant,
    /// Whether an application of theirs may have its CPUs to itself, which keeps every other program off them.
    pub(crate) isolated: bool,
    /// Whose applications they may look into: their "own", or "all".
    pub(crate) see: See,
}

/// What a user may request for memory. While the kernel moves memory of one group, launches of all users wait, up to
/// five seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemoryGrant {
    /// It stays where it is.
    #[default]
    Keep,
    /// It may follow the CPUs, which takes the kernel as long as there is much of it.
    Any,
}

/// Whose applications a user may look into.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum See {
    /// The user's own. Of others' the name and the CPUs are shown.
    #[default]
    Own,
    /// Those of every user.
    All,
}

impl Default for AccessRule {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            groups: Vec::new(),
            launch: true,
            max_qos: 1.0,
            weight: 1.0,
            max_weight: 1.0,
            max_min_cpus: None,
            max_cpus: None,
            max_applications: 64,
            mem: MemoryGrant::Keep,
            isolated: false,
            see: See::Own,
        }
    }
}

/// The largest number of CPUs that may be asked for at least, where a rule does not say.
const MAX_MIN_CPUS: u32 = 4;

impl AccessRule {
    pub(crate) fn max_min_cpus(&self) -> u32 {
        let unsaid = MAX_MIN_CPUS.min(self.max_cpus.unwrap_or(MAX_MIN_CPUS));
        self.max_min_cpus.unwrap_or(unsaid)
    }
}

/// The rules with names looked up.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Access(Vec<(Whom, AccessRule)>);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Whom {
    uids: Vec<u32>,
    gids: Vec<u32>,
}

impl Whom {
    /// Looks names up; an error says which does not exist.
    pub(crate) fn resolve(users: &[String], groups: &[String]) -> Result<Self, String> {
        let resolve = |what, name: &String, found: fn(&str) -> Option<u32>| {
            let id = name.parse().ok().or_else(|| found(name));
            id.ok_or_else(|| {
                format!("{what} {name:?} does not exist; give the name or number of one that does")
            })
        };
        let uid = |name: &str| Some(User::from_name(name).ok()??.uid.as_raw());
        let gid = |name: &str| Some(Group::from_name(name).ok()??.gid.as_raw());
        let uids = users.iter().map(|name| resolve("user", name, uid));
        let gids = groups.iter().map(|name| resolve("group", name, gid));
        Ok(Self {
            uids: uids.collect::<Result<_, _>>()?,
            gids: gids.collect::<Result<_, _>>()?,
        })
    }

    /// Whether the rule is for this user, or for the owner of this subordinate uid. One without names is for every user.
    pub(crate) fn includes(&self, peer: &Peer) -> bool {
        self.names(&[peer.uid, peer.account], &peer.groups)
    }

    fn names(&self, uids: &[u32], gids: &[u32]) -> bool {
        (self.uids.is_empty() && self.gids.is_empty())
            || self.uids.iter().any(|uid| uids.contains(uid))
            || self.gids.iter().any(|gid| gids.contains(gid))
    }
}

/// A rule that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{list} rule {number}: {why}")]
pub(crate) struct BadRule {
    /// The key of its list.
    pub(crate) list: &'static str,
    /// Its place there, counted from 1.
    pub(crate) number: usize,
    pub(crate) why: String,
}

impl Access {
    pub(crate) fn resolve(rules: &[AccessRule]) -> Result<Self, BadRule> {
        let one = |(number, rule): (usize, &AccessRule)| {
            let list = "access";
            let whom = Whom::resolve(&rule.users, &rule.groups);
            let whom = whom.map_err(|why| BadRule { list, number, why })?;
            Ok((whom, rule.clone()))
        };
        let resolved = (1..).zip(rules).map(one);
        Ok(Self(resolved.collect::<Result<_, _>>()?))
    }

    pub(crate) fn grant(&self, peer: &Peer) -> AccessRule {
        let found = self.0.iter().find(|(whom, _)| whom.includes(peer));
        found.map_or_else(AccessRule::default, |(_, rule)| rule.clone())
    }

    /// What the applications of this user, with these groups, weigh together: by the first rule that names the account, a
    /// group, or nobody.
    pub(crate) fn weight(&self, account: u32, groups: &[u32]) -> Weight {
        let found = self
            .0
            .iter()
            .find(|(whom, _)| whom.names(&[account], groups));
        let weight = found.map(|(_, rule)| Weight::new(rule.weight));
        weight.and_then(Result::ok).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    #[test]
    fn the_first_rule_that_names_user_or_group_decides() {
        let rule = |users: &[&str], groups: &[&str], weight| AccessRule {
            users: users.iter().map(ToString::to_string).collect(),
            groups: groups.iter().map(ToString::to_string).collect(),
            max_weight: weight,
            weight,
            ..AccessRule::default()
        };
        let access = Access::resolve(&[
            rule(&["1001"], &[], 2.0),
            rule(&["root"], &["50"], 3.0),
            rule(&[], &[], 4.0),
        ])
        .unwrap();
        for (peer, weight) in [
            (Peer::of(1001, &[50]), 2.0),
            (Peer::of(1002, &[7, 50]), 3.0),
            (Peer::of(0, &[]), 3.0),
            (Peer::of(1003, &[7]), 4.0),
        ] {
            assert_eq!(access.grant(&peer).max_weight, weight, "{peer:?}");
            assert_eq!(access.weight(peer.uid, &peer.groups).get(), weight);
        }
        let open = Access::default().grant(&Peer::of(1, &[]));
        assert_eq!(open, AccessRule::default());
        assert_eq!(Access::default().weight(1, &[]).get(), 1.0);
    }

    #[test]
    fn a_name_that_does_not_exist_is_an_error() {
        let rule = AccessRule {
            groups: vec!["no-such-group".into()],
            ..AccessRule::default()
        };
        let error = Access::resolve(&[AccessRule::default(), rule]).unwrap_err();
        assert_says(&error, &["rule 2", "no-such-group"]);
    }
}
