//! Characterise: pairs of readings become rates, bottlenecks and performance curves.
