//! Who shares CPUs with an application whose threads wait for one another by spinning.
//!
//! On fewer CPUs than threads each wait lasts until the kernel takes the CPU from the thread that spins, some milliseconds:
//! such a program can take a hundred times as long. No team of it can be made smaller, as its threads are its own. So it
//! has as many CPUs as busy threads, together with as few others as have these. The kernel divides them, by weight on each
//! CPU with control groups, else by threads: who spins has more than its part, and the more threads the more. So the observation
//! tells who spins only where all applications are one user's.
//!
//! None shares while any is to lend nothing or never to be resized, or may use only some CPUs.

use mapper_model::{CpuId, CpuSet, Lending, Observation, Resizing, Spinning};
use std::cmp::Reverse;

/// What is counted for each of those that share, by the place of the application; `parts` are the whole CPUs of each.
/// `None` if nobody has to share.
pub(crate) fn shared(
    observation: &Observation,
    usable: &CpuSet,
    parts: &[u32],
) -> Option<Vec<Option<CpuSet>>> {
    let apps = &observation.apps;
    let mut specs = apps.iter().map(|app| &app.spec);
    if !specs.all(|spec| spec.lending == Lending::WhenIdle && spec.resizing == Resizing::Allowed) {
        return None;
    }
    let may_share = |place: &usize| apps[*place].spec.cpus.min() <= parts[*place];
    let wanted = |place: usize| {
        let threads = |spinning: Spinning| spinning.threads;
        let wanted = apps[place].reading.spinning.map_or(0, threads);
        let most = apps[place].spec.cpus.max().unwrap_or(u32::MAX);
        wanted.min(most).min(usable.len())
    };
    let places = (0..apps.len()).filter(may_share);
    let (mut group, mut others): (Vec<usize>, Vec<usize>) =
        places.partition(|place| wanted(*place) > parts[*place]);
    let most_wanted = group.iter().map(|place| wanted(*place)).max()?;
    let spins = group.len();
    others.sort_by_key(|place| Reverse(parts[*place]));
    let mut count: u32 = group.iter().map(|place| parts[*place]).sum();
    for other in others {
        if count < most_wanted {
            count += parts[other];
            group.push(other);
        }
    }
    if group.len() < 2 {
        return None;
    }
    let mut counts: Vec<u32> = group.iter().map(|place| parts[*place]).collect();
    if group.len() == apps.len() {
        // What division by weight leaves over.
        let last = group[spins - 1];
        let most = apps[last].spec.cpus.max().unwrap_or(u32::MAX);
        let left_over = usable.len() - count;
        counts[spins - 1] += left_over.min(most.saturating_sub(counts[spins - 1]));
    }
    // Where they run already.
    let [mut of_group, mut of_others] = [CpuSet::default(), CpuSet::default()];
    for (place, app) in apps.iter().enumerate() {
        match group.contains(&place) {
            true => of_group.insert_all(&app.effective),
            false => of_others.insert_all(&app.effective),
        }
    }
    let mut order: Vec<CpuId> = usable.iter().collect();
    order.sort_by_key(|cpu| (of_others.contains(*cpu), !of_group.contains(*cpu), *cpu));
    order.truncate(counts.iter().sum::<u32>() as usize);
    order.sort_unstable();
    let mut cpus = order.into_iter();
    let mut shared = vec![None; apps.len()];
    for (place, count) in group.iter().zip(counts) {
        shared[*place] = Some(cpus.by_ref().take(count as usize).collect());
    }
    Some(shared)
}
