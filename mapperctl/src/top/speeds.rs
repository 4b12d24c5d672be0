//! The last speeds of each application against its promise, as a row of bars.

use crate::promise::Standing;
use mapper_control::schema::AppStatus;
use mapper_model::AppId;
use std::collections::{BTreeMap, VecDeque};

/// As many as the widest row of bars has.
pub(super) const KEPT: usize = 20;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Clone, Debug, Default)]
pub(super) struct Speeds(BTreeMap<AppId, VecDeque<Standing>>);

impl Speeds {
    /// Adds what a status says.
    pub(super) fn update(&mut self, apps: &[AppStatus]) {
        self.0.retain(|id, _| apps.iter().any(|app| app.id == *id));
        for app in apps {
            let speeds = self.0.entry(app.id).or_default();
            if speeds.len() == KEPT {
                speeds.pop_front();
            }
            speeds.push_back(Standing::of(app));
        }
    }

    /// The last `count` at most, the latest last.
    pub(super) fn last(&self, app: AppId, count: usize) -> impl Iterator<Item = Standing> {
        let speeds = self.0.get(&app).into_iter().flatten();
        let known = self.0.get(&app).map_or(0, VecDeque::len);
        speeds.skip(known.saturating_sub(count)).copied()
    }
}

/// A bar of half the height is the promise; a point stands for an interval that was not measured.
pub(super) fn bar(standing: Standing) -> char {
    let Some(share) = standing.share() else {
        return '·';
    };
    // What is below the promise is lower than what keeps it, however little.
    let highest = match standing {
        Standing::Below(_) => 2,
        _ => BARS.len() - 1,
    };
    let height = (share * 4.0).round().clamp(1.0, 8.0) as usize - 1;
    BARS[height.min(highest)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn half_the_height_is_the_promise_and_below_it_is_lower() {
        for (standing, shown) in [
            (Standing::Unknown, '·'),
            (Standing::Below(0.01), '▁'),
            (Standing::Below(0.5), '▂'),
            (Standing::Below(0.99), '▃'),
            (Standing::Kept(1.0), '▄'),
            (Standing::Kept(1.5), '▆'),
            (Standing::Kept(70.0), '█'),
        ] {
            assert_eq!(bar(standing), shown, "{standing:?}");
        }
    }

    #[test]
    fn only_the_last_speeds_of_programs_that_run_are_kept() {
        let mut apps = samples::status().apps;
        let (first, second) = (apps[0].id, apps[1].id);
        let mut speeds = Speeds::default();
        for _ in 0..KEPT + 5 {
            speeds.update(&apps);
        }
        assert_eq!(speeds.last(first, KEPT + 5).count(), KEPT);
        assert_eq!(speeds.last(first, 3).count(), 3);
        apps.remove(0);
        speeds.update(&apps);
        assert_eq!(speeds.last(first, KEPT).count(), 0);
        assert_eq!(speeds.last(second, KEPT).count(), KEPT);
    }
}
