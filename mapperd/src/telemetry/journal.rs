//! Log lines in the format of the journal, a field a line:
//! <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>.

use crate::telemetry::line::{cut, escaped};
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Where the journal receives.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// A longer value is cut: the journal receives nothing that is longer than a datagram.
const LONGEST_VALUE: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "5",
            Level::DEBUG => "6",
            Level::TRACE => "7",
        };
        put(&mut out, "PRIORITY", priority)?;
        put(&mut out, "SYSLOG_IDENTIFIER", "mapperd")?;
        self.format_fields(out.by_ref(), event)?;
        put_place(&mut out, "", event.metadata())?;
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            put(&mut out, "SPAN_NAME", span.name())?;
            put_place(&mut out, "SPAN_", span.metadata())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                out.write_str(&fields.fields)?;
            }
        }
        Ok(())
    }
}

impl<'a> FormatFields<'a> for Journal {
    fn format_fields<R: RecordFields>(&self, mut out: Writer<'a>, fields: R) -> fmt::Result {
        let mut visitor = Fields(&mut out, Ok(()));
        fields.record(&mut visitor);
        visitor.1
    }

    fn add_fields(
        &self,
        current: &'a mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

fn put_place(out: &mut Writer<'_>, prefix: &str, place: &Metadata<'_>) -> fmt::Result {
    put(out, &format!("{prefix}TARGET"), place.target())?;
    put(
        out,
        &format!("{prefix}CODE_FILE"),
        place.file().unwrap_or_default(),
    )?;
    let line = place.line().unwrap_or_default();
    put(out, &format!("{prefix}CODE_LINE"), &line.to_string())
}

/// A value cannot begin another field.
fn put(out: &mut Writer<'_>, name: &str, value: &str) -> fmt::Result {
    let value = escaped(cut(value, LONGEST_VALUE), None);
    writeln!(out, "{name}={}", cut(&value, LONGEST_VALUE))
}

struct Fields<'a, 'w>(&'a mut Writer<'w>, fmt::Result);

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let name = match field.name() {
            "message" => "MESSAGE".to_owned(),
            name => format!("F_{}", name.to_ascii_uppercase().replace('.', "_")),
        };
        self.1 = self.1.and_then(|()| put(self.0, &name, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    #[test]
    fn an_event_has_its_spans_fields_and_no_value_begins_another() {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let (writer, layer) = (kept.clone(), tracing_subscriber::fmt::layer());
        let layer = layer.event_format(Journal).fmt_fields(Journal);
        let layer = layer.with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _in = tracing::info_span!("interval", interval = 7, later = tracing::field::Empty);
            let _in = _in.entered();
            _in.record("later", true);
            let long = "é".repeat(LONGEST_VALUE);
            // Escaped it is five times as long.
            let control = "\u{1}".repeat(LONGEST_VALUE);
            tracing::warn!(program = "a\nPRIORITY=0", long, control, "two\nlines");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let fields: Vec<_> = text
            .lines()
            .map(|line| line.split_once('=').unwrap())
            .collect();
        let value = |name| {
            let mut found = fields.iter().filter(|(key, _)| *key == name);
            let value = found
                .next()
                .unwrap_or_else(|| panic!("no {name}: {text}"))
                .1;
            assert!(found.next().is_none(), "{name} twice: {text}");
            value
        };
        for (name, expected) in [
            ("SPAN_NAME", "interval"),
            ("F_INTERVAL", "7"),
            ("F_LATER", "true"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "mapperd"),
            ("MESSAGE", "two\\nlines"),
            ("F_PROGRAM", "a\\nPRIORITY=0"),
            ("CODE_FILE", file!()),
            ("TARGET", module_path!()),
        ] {
            assert_eq!(value(name), expected);
        }
        assert_eq!(value("F_LONG").len(), LONGEST_VALUE);
        assert!(value("F_CONTROL").len() <= LONGEST_VALUE);
    }
}
