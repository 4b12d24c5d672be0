//! The pure decision step: characterise, allocate, map, check; record and replay.
