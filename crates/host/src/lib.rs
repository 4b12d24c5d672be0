//! All kernel I/O: topology, counters, progress pages, enforcers.
