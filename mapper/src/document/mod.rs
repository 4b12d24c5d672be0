//! The look of all pages: one HTML document without outside resources, for light and dark screens, phones and paper.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("document.css");

/// A page: what stands in its window's title, its script, and its content.
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) script: &'static str,
    pub(crate) content: Markup,
}

impl Document {
    /// The page as a file. Browsers execute nothing in it but `script`, and fetch nothing.
    pub(crate) fn file(&self) -> String {
        let policy = html! {
            meta http-equiv="Content-Security-Policy" content=(policy("page"));
        };
        self.markup(&policy, "page")
    }

    /// The page to be served with [`policy`] of the same `nonce` in its head.
    pub(crate) fn served(&self, nonce: &str) -> String {
        self.markup(&html! {}, nonce)
    }

    fn markup(&self, policy: &Markup, nonce: &str) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    (policy)
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style nonce=(nonce) { (PreEscaped(STYLE)) }
                }
                body {
                    main { (self.content) }
                    @if !self.script.is_empty() {
                        script nonce=(nonce) { (PreEscaped(self.script)) }
                    }
                }
            }
        };
        page.into_string()
    }
}

/// What browsers may load and execute: the parts of the page that carry `nonce`, and data from where the page is from.
pub(crate) fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'"
    )
}
