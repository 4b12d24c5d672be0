//! How many CPUs each application can have within the CPUs that it may use.
//!
//! An application may be kept to some CPUs ([`AppView::allowed`](mapper_model::AppView)), and whatever counts a policy
//! decides must fit. So each such application gets an upper limit, such that all can have theirs at the same time;
//! those that may use every CPU take what is left. Where no two sets overlap, the limit is the size of the set.
//! Otherwise the sets are divided: one CPU each, then what those hold that must not be resized, then one by one to the
//! one that has least by weight, whatever the applications would make of the CPUs.

use mapper_model::{Assignment, CpuSet, Resizing, Snapshot};

/// The most CPUs each application can have; empty when all may use every usable CPU.
pub(crate) fn room(snapshot: &Snapshot<'_>) -> Vec<u32> {
    let apps = snapshot.apps;
    let confined: Vec<(usize, &CpuSet)> = apps
        .iter()
        .enumerate()
        .filter_map(|(place, app)| Some((place, app.allowed?)))
        .collect();
    if confined.is_empty() {
        return Vec::new();
    }
    let mut room = vec![u32::MAX; apps.len()];
    let mut union = CpuSet::new();
    let mut overlap = false;
    for &(place, allowed) in &confined {
        room[place] = allowed.len();
        overlap |= !union.is_disjoint(allowed);
        union.insert_all(allowed);
    }
    if !overlap {
        return room;
    }
    let sets = confined.iter().map(|(_, allowed)| *allowed).collect();
    let mut assignment = Assignment::new(snapshot.usable, sets);
    let grow = |assignment: &mut Assignment<'_>, i: usize, most: u32| {
        assignment.given(i).len() < most && assignment.grow(i, &CpuSet::new()).is_ok()
    };
    for i in 0..confined.len() {
        grow(&mut assignment, i, 1);
    }
    let mut open = Vec::new();
    for (i, &(place, allowed)) in confined.iter().enumerate() {
        let app = &apps[place];
        if app.spec.resizing == Resizing::Never && !app.held.is_empty() {
            while grow(&mut assignment, i, app.held.len()) {}
        } else {
            let most = app.spec.cpus.max().unwrap_or(u32::MAX);
            open.push((i, app.spec.weight.get(), most.min(allowed.len())));
        }
    }
    let by_weight = |&(i, weight, _): &(usize, f64, u32), assignment: &Assignment<'_>| {
        f64::from(assignment.given(i).len()) / weight
    };
    while let Some(least) = (0..open.len()).min_by(|&a, &b| {
        by_weight(&open[a], &assignment).total_cmp(&by_weight(&open[b], &assignment))
    }) {
        let (i, _, most) = open[least];
        if !grow(&mut assignment, i, most) {
            open.remove(least);
        }
    }
    for (i, &(place, _)) in confined.iter().enumerate() {
        room[place] = assignment.given(i).len().max(1);
    }
    room
}
