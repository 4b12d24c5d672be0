//! The pages of reports: one HTML file each without outside resources, for light and dark screens and paper. They are
//! well-formed XML, which tests can check.

use maud::{Markup, html};

/// The look of all reports.
const STYLE: &str = include_str!("report.css");

/// A whole page with this content; `style` is added to the look that all have.
#[must_use]
pub fn page(title: &str, style: &str, content: &Markup) -> String {
    let title = html! { title { (title) } }.0;
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         {title}<style>\n{STYLE}{style}</style></head><body><main>\n{}</main></body></html>\n",
        content.0
    )
}
