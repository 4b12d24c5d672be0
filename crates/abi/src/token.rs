//! The number by which an application recognises its page.
//!
//! The application finds the page under `/proc/<pid>/fd/<n>`. The kernel recycles both numbers, so that the path may lead
//! to another page. Therefore the daemon puts 64 random bits into the page, and the launcher into the environment.

use core::fmt;
use core::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::PageError;

/// 64 random bits; never zero, which is what an empty page holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

impl Token {
    /// A token that cannot be guessed.
    pub fn random() -> Result<Self, PageError> {
        loop {
            let mut bytes = [0_u8; 8];
            let filled = getrandom(&mut bytes, GetRandomFlags::empty());
            let call = "getrandom";
            let filled = filled.map_err(|source| PageError::Kernel { call, source })?;
            let value = u64::from_ne_bytes(bytes);
            if filled == bytes.len() && value != 0 {
                return Ok(Self(value));
            }
        }
    }

    /// The token with this value, unless it is zero.
    pub const fn from_raw(value: u64) -> Option<Self> {
        if value == 0 { None } else { Some(Self(value)) }
    }

    /// The bits.
    pub const fn to_raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Hides the bits from logs, which other users might read.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl FromStr for Token {
    type Err = PageError;

    fn from_str(text: &str) -> Result<Self, PageError> {
        u64::from_str_radix(text, 16)
            .ok()
            .filter(|_| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(Self::from_raw)
            .ok_or_else(|| PageError::BadToken(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_environment() {
        let token = Token::random().unwrap();
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        let small = Token::from_raw(0xab).unwrap();
        assert_eq!(small.to_string(), "00000000000000ab");
        assert_eq!(small.to_string().parse::<Token>().unwrap(), small);
    }

    #[test]
    fn what_is_not_sixteen_hexadecimal_digits_is_refused() {
        for text in [
            "",
            "12",
            "+00000000000000a",
            "zzzzzzzzzzzzzzzz",
            "0000000000000000",
        ] {
            let error = text.parse::<Token>().unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_token_does_not_show_in_debug_output() {
        assert!(!format!("{:?}", Token::from_raw(0x1234_5678).unwrap()).contains("5678"));
    }
}
