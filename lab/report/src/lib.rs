//! What evaluation and measurements print with: files that results go to, progress, pages, plain statistics.

pub mod bootstrap;
pub mod html_report;
pub mod interrupt;
pub mod output;
pub mod progress;
pub mod statistics;
pub mod stopped;
pub mod workspace;
