//! Why a number lies outside its band, as far as it was found.

/// By target and, where only some of its numbers are meant, how the number's name begins.
const CAUSES: &[(&str, &str, &str)] = &[];

/// The cause for a number.
pub(super) fn of(id: &str, what: &str) -> Option<&'static str> {
    CAUSES
        .iter()
        .find(|(target, begin, _)| *target == id && what.starts_with(begin))
        .map(|(.., cause)| *cause)
}
