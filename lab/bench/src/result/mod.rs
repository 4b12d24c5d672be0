//! What was seen and what came of it, as plain data: the shape of the JSON file.

pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod speed;
