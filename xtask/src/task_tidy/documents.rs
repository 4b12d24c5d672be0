//! Markdown: its prose, and the rule that links within the checkout lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::sources::Sources;

/// What is looked at of a document.
#[derive(Default)]
pub(super) struct Document {
    /// Running text without code, with the line it begins at.
    pub(super) prose: Vec<(usize, String)>,
    /// Targets of links and images, with their line.
    links: Vec<(usize, String)>,
    /// What `#…` can name in it.
    anchors: BTreeSet<String>,
}

impl Document {
    pub(super) fn read(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading = String::new();
        let mut in_code = false;
        let mut slugs: BTreeMap<String, usize> = BTreeMap::new();
        let options = Options::ENABLE_TABLES | Options::ENABLE_HEADING_ATTRIBUTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            let line = || text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Heading { id, .. }) => {
                    heading.clear();
                    document.anchors.extend(id.map(|id| id.to_string()));
                }
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading);
                    let count = slugs.entry(slug.clone()).or_default();
                    document.anchors.insert(match *count {
                        0 => slug,
                        count => format!("{slug}-{count}"),
                    });
                    *count += 1;
                }
                Event::Start(Tag::CodeBlock(_)) => in_code = true,
                Event::End(TagEnd::CodeBlock) => in_code = false,
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line(), dest_url.to_string()));
                }
                Event::Code(code) => heading.extend(Some(&*code)),
                Event::Text(words) if !in_code => {
                    heading.extend(Some(&*words));
                    document.prose.push((line(), words.to_string()));
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let ids = html.split("id=\"").skip(1);
                    let ids = ids.filter_map(|rest| rest.split('"').next());
                    document.anchors.extend(ids.map(str::to_owned));
                }
                _ => {}
            }
        }
        document
    }
}

/// The name by which a heading is linked to, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    let text = heading.trim().to_lowercase().replace(' ', "-");
    let is_kept = |c: &char| c.is_alphanumeric() || "-_".contains(*c);
    text.chars().filter(is_kept).collect()
}

/// A finding for each link of a document to a file or heading that is not there.
pub(super) fn check_links(root: &Path, sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let documents = sources.documents.iter();
    let documents = documents.map(|(path, text)| (&**path, Document::read(text)));
    let documents: BTreeMap<&Path, Document> = documents.collect();
    for (path, document) in &documents {
        for (line, link) in &document.links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.to_path_buf(),
                file => path_clean::clean(path.with_file_name(file)),
            };
            let place = path.display();
            if !root.join(&target).exists() && !documents.contains_key(&*target) {
                findings.push(format!(
                    "{place}:{line}: links to {link}, which is not there"
                ));
            } else if let Some(document) = documents.get(&*target)
                && !anchor.is_empty()
                && !document.anchors.contains(anchor)
            {
                let target = target.display();
                findings.push(format!(
                    "{place}:{line}: links to {link}, and {target} has no such heading"
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_found() {
        let sources = Sources::of(&[
            (
                "docs/a.md",
                "# A\n\n[b](../b.md), [b](../b.md#the-b-of-1-s), [](c.md), [](#x), [](../b.md#y)",
            ),
            ("b.md", "## The `b` of 1 s!\n\n[web](https://example.org/x)"),
        ]);
        let found = check_links(Path::new("/nowhere"), &sources);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:3: links to c.md"));
        assert!(
            found[1].contains("#x") && found[2].contains("b.md#y"),
            "{found:?}"
        );
    }

    #[test]
    fn headings_of_the_same_name_are_numbered_and_prose_is_text_without_code() {
        let document = Document::read("# A\n# A\n");
        assert!(document.anchors.contains("a") && document.anchors.contains("a-1"));
        let document = Document::read("one `two`\n\n```\nthree\n```\n");
        assert_eq!(document.prose, [(1, "one ".to_owned())]);
    }
}
