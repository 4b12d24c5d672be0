//! Shows results: tables for the terminal and for Markdown, a page with plots, files.

pub(crate) mod page;
mod plot;
pub(crate) mod publish;
mod tables;
