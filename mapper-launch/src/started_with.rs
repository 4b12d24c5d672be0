//! What the process was started with: words, environment, and the memory the words lie in.

use std::ffi::{CStr, CString, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

/// The arguments of `main`.
#[derive(Debug)]
pub struct StartedWith {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) title: TitleMemory,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TitleMemory {
    start: *mut c_char,
    len: usize,
}

impl StartedWith {
    /// The words, of which the first is the program's name.
    #[must_use]
    pub fn words(&self) -> &[OsString] {
        &self.words
    }

    /// Copies the arguments of `main`.
    ///
    /// # Safety
    /// To be called with the arguments that the C runtime gave to `main`, before anything changes the environment.
    #[must_use]
    pub unsafe fn from_main(
        count: c_int,
        arguments: *mut *mut c_char,
        environment: *mut *mut c_char,
    ) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        let mut words = Vec::with_capacity(count);
        let mut title = TitleMemory::NONE;
        for place in 0..count {
            // SAFETY: `main` gets `count` pointers to C strings, which live as long as the process.
            let (start, word) = unsafe {
                let start = *arguments.add(place);
                (start, CStr::from_ptr(start))
            };
            title = title.extended(start, word.to_bytes_with_nul().len());
            words.push(OsString::from_vec(word.to_bytes().to_vec()));
        }
        let mut entries = Vec::new();
        let mut place = environment;
        // SAFETY: the environment is a list of C strings with a null pointer at its end.
        unsafe {
            while !place.is_null() && !(*place).is_null() {
                entries.push(CStr::from_ptr(*place).to_owned());
                place = place.add(1);
            }
        }
        Self {
            words,
            environment: entries,
            title,
        }
    }
}

impl TitleMemory {
    const NONE: Self = Self {
        start: std::ptr::null_mut(),
        len: 0,
    };

    /// With the word of `len` bytes that follows; words that lie elsewhere are left out.
    fn extended(self, start: *mut c_char, len: usize) -> Self {
        if self.start.is_null() {
            return Self { start, len };
        }
        let follows = self.start.wrapping_add(self.len) == start;
        Self {
            start: self.start,
            len: self.len + if follows { len } else { 0 },
        }
    }

    /// Makes this process appear under another command line.
    ///
    /// # Safety
    /// No code may read the arguments of `main` at this time or expect them there later.
    pub(crate) unsafe fn rename(self, title: &CStr) {
        let title = title.to_bytes_with_nul();
        if self.start.is_null() {
            return;
        }
        // SAFETY: the memory belongs to the words of `main` (see `from_main`), is writable by the C standard, and by the
        // caller's promise no other code uses it.
        unsafe {
            std::ptr::write_bytes(self.start, 0, self.len);
            if title.len() <= self.len {
                std::ptr::copy_nonoverlapping(title.as_ptr().cast(), self.start, title.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_environment_are_kept_as_they_came() {
        let mut memory = *b"mapper-launch\0--\0caf\xe9\0";
        let base: *mut c_char = memory.as_mut_ptr().cast();
        let mut words = [base, base.wrapping_add(14), base.wrapping_add(17)];
        let mut odd = *b"no equals sign\0";
        let mut environment = [odd.as_mut_ptr().cast(), std::ptr::null_mut()];
        // SAFETY: shaped as the C runtime shapes them.
        let started =
            unsafe { StartedWith::from_main(3, words.as_mut_ptr(), environment.as_mut_ptr()) };
        assert_eq!(started.words[2], OsString::from_vec(b"caf\xe9".to_vec()));
        assert_eq!(started.environment, [c"no equals sign".to_owned()]);
        assert_eq!(started.title.len, memory.len());
        // SAFETY: the words were copied, no other code reads them.
        unsafe { started.title.rename(c"witness") };
        assert!(memory.starts_with(b"witness\0\0"));
        assert!(memory.ends_with(b"\0\0\0"));
    }
}
