//! Keys of the configuration file at their places in earlier versions, which still work with a warning.

use crate::config::file::ConfigFile;
use crate::config::moved::Moved;
use anyhow::ensure;

pub(crate) fn warn_of(moved: &[Moved]) {
    for place in moved {
        tracing::warn!("configuration: {place}");
    }
}

/// Moves a value from its former place to its new one.
fn take<T: PartialEq>(
    former: Option<T>,
    now: &mut T,
    unset: &T,
    place: Moved,
) -> anyhow::Result<Option<Moved>> {
    let Some(value) = former else {
        return Ok(None);
    };
    ensure!(
        now == unset,
        "{} and {} are both given; remove the former",
        place.from,
        place.to
    );
    *now = value;
    Ok(Some(place))
}

/// Moves everything that the file gives at a former place to its new one.
pub(crate) fn resolve(file: &mut ConfigFile) -> anyhow::Result<()> {
    macro_rules! take {
        ($($former:ident => $now:ident as $given:expr;)*) => {
            [$(take(
                file.$former.take().map($given),
                &mut file.expert.$now,
                &Default::default(),
                Moved {
                    from: stringify!($former),
                    to: concat!("expert.", stringify!($now)),
                },
            )?),*]
        };
    }
    let moved = take! {
        counters => counters as Some;
        socket => socket as Some;
        overhead_budget => overhead_budget as Some;
        mapping => mapping as Some;
        cgroup_root => cgroup_root as Some;
        record => record as Some;
        state_dir => state_dir as Some;
        monitor => characterise as |table| table;
        allocate => allocate as |table| table;
        map => placement as |table| table;
        machine => machine as |table| table;
    };
    file.moved = moved.into_iter().flatten().collect();
    Ok(())
}
