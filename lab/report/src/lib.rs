//! What evaluation and measurements print with: files that results go to, progress, pages, plain statistics.

pub mod html_report;
pub mod interrupt;
pub mod output;
pub mod plot;
pub mod progress;
pub mod statistics;
pub mod stopped;
pub mod table;
pub mod workspace;
