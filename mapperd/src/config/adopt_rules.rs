//! Rules that adopt: which units and control groups are managed without anybody's call, and by what promise.
//!
//! A rule for units is for those of the system's manager alone: they are all in slices. What a user's own manager runs
//! is in the user's service, whatever its name is, so no user gains by naming a unit like a rule.

use crate::config::access::BadRule;
use crate::config::pattern::Pattern;
use mapper_control::schema::{AdoptRequest, AdoptTarget};
use mapper_model::{CpuRange, Lending, Qos, Weight};
use schemars::JsonSchema;
use serde::Deserialize;

/// The kinds of units that have processes.
const KINDS: [&str; 3] = [".service", ".scope", ".slice"];

/// A rule: what it adopts, and with what.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AdoptRule {
    /// Services, scopes and slices of systemd, by name. `*` and `?` stand for characters.
    #[schemars(with = "Option<String>")]
    pub(crate) unit: Option<Pattern>,
    /// Control groups by their paths below the mount of cgroup v2. `*` and `?` stand for characters but the slash,
    /// `**` for any.
    #[schemars(with = "Option<String>")]
    pub(crate) cgroup: Option<Pattern>,
    /// The promise.
    #[schemars(with = "Option<f64>")]
    pub(crate) qos: Option<Qos>,
    /// Its weight in the fair share, from 0.01 to 100.
    #[schemars(with = "Option<f64>")]
    pub(crate) weight: Option<Weight>,
    /// The most CPUs that it has.
    #[schemars(range(min = 1))]
    pub(crate) max_cpus: Option<u32>,
    /// Whether others may use its CPUs while it is idle.
    pub(crate) lend: Option<bool>,
}

/// The rules in the order of the file.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct AdoptRules(Vec<AdoptRule>);

/// What is to be adopted by which rule.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wanted {
    /// Of the rule, counted from 1.
    pub(crate) rule: usize,
    pub(crate) request: AdoptRequest,
}

impl AdoptRules {
    pub(crate) fn resolve(rules: &[AdoptRule]) -> Result<Self, BadRule> {
        for (number, rule) in (1..).zip(rules) {
            let list = "adopt";
            rule.check().map_err(|why| BadRule { list, number, why })?;
        }
        Ok(Self(rules.to_vec()))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what is below a group may fit a rule. What users make in their own services is not read.
    pub(crate) fn reach_below(&self, path: &str) -> bool {
        self.0.iter().any(|rule| rule.reaches_below(path))
    }

    /// Whether a group is adopted, by its path below the mount, which begins with a slash: by the first rule that fits.
    pub(crate) fn find(&self, path: &str) -> Option<Wanted> {
        let (number, rule) = (1..).zip(&self.0).find(|(_, rule)| rule.fits(path))?;
        let target = match rule.unit {
            Some(_) => AdoptTarget::Unit(name_of(path).to_owned()),
            None => AdoptTarget::Cgroup(path.to_owned()),
        };
        let request = AdoptRequest {
            qos: rule.qos,
            weight: rule.weight.unwrap_or_default(),
            cpus: rule.range().unwrap_or_default(),
            lending: match rule.lend {
                Some(false) => Lending::Never,
                Some(true) | None => Lending::WhenIdle,
            },
            ..AdoptRequest::of(target)
        };
        Some(Wanted {
            rule: number,
            request,
        })
    }
}

impl AdoptRule {
    /// An error says why the rule cannot be applied.
    fn check(&self) -> Result<(), String> {
        match (&self.unit, &self.cgroup) {
            (None, None) => Err("names nothing to adopt; give unit or cgroup".to_owned()),
            (Some(_), Some(_)) => {
                Err("names a unit and a control group; give one of them".to_owned())
            }
            (Some(unit), None) => check_unit(unit.as_str()),
            (None, Some(cgroup)) => check_path(cgroup.as_str()),
        }?;
        self.range().map(drop)
    }

    fn range(&self) -> Result<CpuRange, String> {
        let range = CpuRange::new(1, self.max_cpus);
        range.map_err(|error| error.to_string())
    }

    fn reaches_below(&self, path: &str) -> bool {
        let Some(cgroup) = &self.cgroup else {
            return is_of_the_system(path) && path.ends_with(".slice");
        };
        let pattern = cgroup.as_str();
        let depth = |path: &str| path.matches('/').count();
        let below = pattern.contains("**") || depth(path) < depth(pattern);
        // The groups above all that fit.
        let wildcard = pattern.find(['*', '?']).unwrap_or(pattern.len());
        let named = pattern[..wildcard].rsplit_once('/');
        let named = format!("{}/", named.map_or("", |(named, _)| named));
        let path = format!("{path}/");
        below && (named.starts_with(&path) || path.starts_with(&named))
    }

    fn fits(&self, path: &str) -> bool {
        match (&self.unit, &self.cgroup) {
            (Some(unit), _) => is_of_the_system(path) && unit.fits(name_of(path)),
            (None, Some(cgroup)) => cgroup.fits(path),
            (None, None) => false,
        }
    }
}

/// A rule for all units would be for those of the system, too.
fn check_unit(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":_.\\@-*?".contains(c);
    let stem = KINDS.iter().find_map(|kind| name.strip_suffix(kind));
    match stem {
        Some(stem) if stem.contains(|c| !"*?".contains(c)) && name.chars().all(allowed) => Ok(()),
        Some(stem) if !stem.is_empty() && stem.chars().all(|c| "*?".contains(c)) => Err(format!(
            "unit = {name:?} would be for the units of the system, too; give a part of the name"
        )),
        _ => Err(format!(
            "unit = {name:?} fits no unit with processes; give a name that ends in .service, .scope or .slice"
        )),
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("cgroup = {path:?} {why}"));
    let Some(below) = path.strip_prefix('/') else {
        return wrong("is no path below the mount of cgroup v2; give one that begins with a slash");
    };
    if path.starts_with("/sys/fs/cgroup") {
        return wrong("fits no group; leave out the mount, /sys/fs/cgroup");
    }
    let mut parts = below.split('/');
    if parts.clone().any(|part| ["", ".", ".."].contains(&part)) {
        return wrong("fits no group; give names with one slash between them");
    }
    match parts.next().is_some_and(|first| first.contains(['*', '?'])) {
        true => wrong("would be for the groups of the system, too; begin with a name"),
        false => Ok(()),
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a group is a unit's of the system's manager: one in slices.
fn is_of_the_system(path: &str) -> bool {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    let mut parts = above.split('/').filter(|part| !part.is_empty());
    parts.all(|part| part.ends_with(".slice"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::ConfigFile;
    use crate::fake::assert_says;

    fn rules(text: &str) -> AdoptRules {
        AdoptRules::resolve(&ConfigFile::parse(text).unwrap().adopt).unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_says_with_what_a_unit_is_adopted() {
        let rules = rules(
            "[[adopt]]\nunit = \"ollama.service\"\nqos = 0.9\nmax_cpus = 2\nlend = false\n\
             [[adopt]]\nunit = \"a*.service\"\nweight = 2\n",
        );
        let first = rules.find("/system.slice/ollama.service").unwrap();
        assert_eq!(first.rule, 1);
        let request = first.request;
        assert_eq!(
            request.target,
            AdoptTarget::Unit("ollama.service".to_owned())
        );
        assert_eq!(request.qos.map(Qos::get), Some(0.9));
        assert_eq!(
            (request.cpus.max(), request.lending),
            (Some(2), Lending::Never)
        );
        let second = rules
            .find("/system.slice/system-a.slice/a@1.service")
            .unwrap();
        assert_eq!((second.rule, second.request.weight.get()), (2, 2.0));
        assert_eq!(second.request.lending, Lending::WhenIdle);
        assert_eq!(rules.find("/system.slice/a.scope"), None);
        assert_eq!(rules.find("/system.slice"), None);
    }

    #[test]
    fn no_user_gains_by_naming_a_unit_like_a_rule() {
        let rules =
            rules("[[adopt]]\nunit = \"ollama.service\"\n[[adopt]]\nunit = \"user-*.slice\"\n");
        let own = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        assert_eq!(rules.find(&format!("{own}/ollama.service")), None);
        assert_eq!(rules.find(&format!("{own}/user-1.slice")), None);
        assert_eq!(rules.find("/jobs/ollama.service"), None);
        let slice = rules.find("/user.slice/user-1000.slice").unwrap();
        assert_eq!(
            slice.request.target,
            AdoptTarget::Unit("user-1000.slice".to_owned())
        );
    }

    #[test]
    fn a_group_is_adopted_by_its_path() {
        let rules = rules("[[adopt]]\ncgroup = \"/jobs/*\"\n");
        let found = rules.find("/jobs/4711").unwrap().request.target;
        assert_eq!(found, AdoptTarget::Cgroup("/jobs/4711".to_owned()));
        for other in ["/jobs", "/jobs/4711/step", "/other/4711"] {
            assert_eq!(rules.find(other), None, "{other}");
        }
    }

    #[test]
    fn only_groups_above_what_may_fit_are_looked_into() {
        let units = rules("[[adopt]]\nunit = \"a.service\"\n");
        for (path, reached) in [
            ("/system.slice", true),
            ("/user.slice/user-1000.slice", true),
            ("/user.slice/user-1000.slice/user@1000.service", false),
            ("/jobs", false),
        ] {
            assert_eq!(units.reach_below(path), reached, "{path}");
        }
        let groups =
            rules("[[adopt]]\ncgroup = \"/jobs/big/*\"\n[[adopt]]\ncgroup = \"/deep/**\"\n");
        for (path, reached) in [
            ("/jobs", true),
            ("/jobs/big", true),
            ("/jobs/small", false),
            ("/jobs/big/1", false),
            ("/jobs-of-others", false),
            ("/deep/a/b/c", true),
            ("/system.slice", false),
        ] {
            assert_eq!(groups.reach_below(path), reached, "{path}");
        }
    }

    #[test]
    fn an_invalid_rule_is_named_with_its_fix() {
        for (text, says) in [
            (
                "qos = 0.5",
                &["line 1", "adopt rule 1", "unit or cgroup"][..],
            ),
            (
                "unit = \"a.service\"\ncgroup = \"/a\"",
                &["adopt rule 1", "one of them"],
            ),
            (
                "unit = \"ollama\"",
                &["adopt rule 1", "\"ollama\"", ".service"],
            ),
            (
                "unit = \"system.slice/a.service\"",
                &["adopt rule 1", ".service"],
            ),
            ("cgroup = \"jobs/*\"", &["adopt rule 1", "jobs/*", "slash"]),
            (
                "cgroup = \"/**\"",
                &["adopt rule 1", "/**", "begin with a name"],
            ),
            ("cgroup = \"/?**\"", &["begin with a name"]),
            (
                "cgroup = \"/sys/fs/cgroup/jobs/*\"",
                &["adopt rule 1", "leave out the mount"],
            ),
            ("cgroup = \"/jobs/\"", &["adopt rule 1", "one slash"]),
            ("cgroup = \"/jobs/../*\"", &["adopt rule 1", "one slash"]),
            (
                "unit = \"*.service\"",
                &["adopt rule 1", "part of the name"],
            ),
            ("unit = \".service\"", &["adopt rule 1", "fits no unit"]),
            ("unit = \"a b.service\"", &["adopt rule 1", "fits no unit"]),
            ("unit = \"a.service\"\nmax_cpus = 0", &["adopt rule 1", "0"]),
            ("unit = \"a.service\"\nweight = 0", &["line 3", "weight 0"]),
            ("units = \"a.service\"", &["line 2", "`units`", "`unit`"]),
        ] {
            let error = ConfigFile::parse(&format!("[[adopt]]\n{text}\n")).unwrap_err();
            assert_says(&error, says);
        }
    }
}
