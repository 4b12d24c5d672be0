//! Text that users choose and others read.

/// Whether a character can make text look like another's: it steers a terminal, begins a line, or reverses the direction
/// of what follows.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
