//! Shows results: tables for the terminal and for Markdown, a page with plots, files.

pub(crate) mod markdown;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod publish;
pub(crate) mod tables;
pub(crate) mod terminal;
