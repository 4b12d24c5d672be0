//! What was seen and what came of it, as plain data: the shape of the JSON file.

mod report;
mod run;
mod speed;

pub(crate) use report::*;
pub(crate) use run::*;
pub(crate) use speed::*;
