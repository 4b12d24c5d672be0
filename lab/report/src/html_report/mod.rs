//! What the reports of this project's tasks have in common: one HTML page each without outside resources, for
//! light and dark screens and paper. They are written as well-formed XML, which browsers read just as well and
//! tests can check.

pub mod axis;

use maud::Markup;

/// The look of all reports.
const STYLE: &str = include_str!("report.css");

/// The end of a page.
pub const END: &str = "</main></body></html>\n";

/// A page up to where its content begins; `style` is what it adds to the look that all have.
pub fn begin(title: &str, style: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta name=\"color-scheme\" content=\"light dark\"/>\
         <title>{}</title><style>\n{STYLE}{style}</style></head><body><main>\n",
        escaped(title)
    )
}

/// A whole page with this content; `style` is what it adds to the look that all have.
pub fn page(title: &str, style: &str, content: &Markup) -> String {
    begin(title, style) + &content.0 + END
}

/// Text as it may stand in markup.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
