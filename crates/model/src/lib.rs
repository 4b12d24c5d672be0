//! Types every part of mapper shares: ids, CPU sets, topology, readings, profiles, plans.
