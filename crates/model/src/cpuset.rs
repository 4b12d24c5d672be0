//! Sets of hardware threads.
//!
//! A [`CpuSet`] is a bit set over CPU numbers. It is written, read and serialised in the kernel's list
//! format (`0-3,8,10-11`, as in `cpuset.cpus`). Up to 256 CPUs are held without allocation. Trailing
//! zero words are never kept, so equal sets have equal words.

use crate::CpuId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

const BITS: usize = 64;

/// The largest CPU number that is parsed, so that an untrusted list cannot allocate without bound;
/// Linux for x86-64 stops at 8,192.
pub const MAX_CPU: u32 = 65_535;

/// A set of hardware threads. See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct CpuSet {
    // Invariant: the last word, if any, is not zero.
    words: SmallVec<[u64; 4]>,
}

/// A CPU list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cpu list {list:?}: {reason} at {part:?}; write it like 0-3,8")]
pub struct ParseCpuSetError {
    list: String,
    part: String,
    reason: &'static str,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            words: SmallVec::new_const(),
        }
    }

    /// The set of CPUs `0..count`.
    pub fn first(count: u32) -> Self {
        (0..count).map(CpuId).collect()
    }

    /// Adds a CPU. Returns whether it was new.
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = (cpu.index() / BITS, 1u64 << (cpu.index() % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Removes a CPU. Returns whether it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = (cpu.index() / BITS, 1u64 << (cpu.index() % BITS));
        let Some(slot) = self.words.get_mut(word) else {
            return false;
        };
        let had = *slot & bit != 0;
        *slot &= !bit;
        self.trim();
        had
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words
            .get(cpu.index() / BITS)
            .is_some_and(|w| w >> (cpu.index() % BITS) & 1 == 1)
    }

    /// How many CPUs the set holds.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether the set holds no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The lowest CPU of the set.
    pub fn first_cpu(&self) -> Option<CpuId> {
        self.iter().next()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            words: &self.words,
            word: 0,
            rest: self.words.first().copied().unwrap_or(0),
        }
    }

    /// CPUs in `self` or `other`.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.insert_all(other);
        out
    }

    /// CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self {
            words: self
                .words
                .iter()
                .zip(&other.words)
                .map(|(a, b)| a & b)
                .collect(),
        };
        out.trim();
        out
    }

    /// CPUs in `self` that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.remove_all(other);
        out
    }

    /// Adds every CPU of `other`.
    pub fn insert_all(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a |= b;
        }
    }

    /// Removes every CPU of `other`.
    pub fn remove_all(&mut self, other: &Self) {
        for (a, b) in self.words.iter_mut().zip(&other.words) {
            *a &= !b;
        }
        self.trim();
    }

    /// How many CPUs are in both sets.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> u32 {
        self.words
            .iter()
            .zip(&other.words)
            .map(|(a, b)| (a & b).count_ones())
            .sum()
    }

    /// Whether no CPU is in both sets.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0)
    }

    /// Whether every CPU of `self` is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words
            .iter()
            .enumerate()
            .all(|(i, a)| a & !other.words.get(i).copied().unwrap_or(0) == 0)
    }

    /// The bits as 64-bit words, lowest CPU first, without trailing zero words.
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

/// Iterator over the CPUs of a [`CpuSet`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    words: &'a [u64],
    word: usize,
    rest: u64,
}

impl Iterator for Iter<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.rest == 0 {
            self.word += 1;
            self.rest = *self.words.get(self.word)?;
        }
        let bit = self.rest.trailing_zeros();
        self.rest &= self.rest - 1;
        // A set never holds more than 2^32 CPUs, as CPU numbers are 32 bits wide.
        Some(CpuId((self.word * BITS) as u32 + bit))
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = CpuId;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl Extend<CpuId> for CpuSet {
    fn extend<I: IntoIterator<Item = CpuId>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let mut out = String::new();
        let mut cpus = self.iter().peekable();
        while let Some(start) = cpus.next() {
            let mut end = start;
            while cpus.peek() == Some(&CpuId(end.0 + 1)) {
                end = CpuId(end.0 + 1);
                cpus.next();
            }
            if !out.is_empty() {
                out.push(',');
            }
            match end.0 - start.0 {
                0 => write!(out, "{start}")?,
                _ => write!(out, "{start}-{end}")?,
            }
        }
        f.pad(&out)
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    /// Reads the kernel's list format, also with white space around it, and an empty list.
    fn from_str(list: &str) -> Result<Self, ParseCpuSetError> {
        let fail = |part: &str, reason| ParseCpuSetError {
            list: list.chars().take(80).collect(),
            part: part.chars().take(40).collect(),
            reason,
        };
        let number = |text: &str, part: &str| match text.trim().parse::<u32>() {
            Ok(n) if n > MAX_CPU => Err(fail(part, "cpu number too large")),
            Ok(n) => Ok(n),
            Err(_) => Err(fail(part, "not a number")),
        };
        let mut set = Self::new();
        if list.trim().is_empty() {
            return Ok(set);
        }
        for part in list.trim().split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low, part)?, number(high, part)?),
                None => {
                    let n = number(part, part)?;
                    (n, n)
                }
            };
            if low > high {
                return Err(fail(part, "range runs backwards"));
            }
            set.extend((low..=high).map(CpuId));
        }
        Ok(set)
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let list = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        list.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn of(cpus: &BTreeSet<u32>) -> CpuSet {
        cpus.iter().copied().map(CpuId).collect()
    }

    fn sets() -> impl Strategy<Value = BTreeSet<u32>> {
        proptest::collection::btree_set(0u32..600, 0..80)
    }

    proptest! {
        #[test]
        fn a_set_read_back_from_its_list_is_the_same(cpus in sets()) {
            let set = of(&cpus);
            prop_assert_eq!(set.to_string().parse::<CpuSet>().unwrap(), set);
        }

        #[test]
        fn operations_agree_with_those_of_an_ordered_set(a in sets(), b in sets()) {
            let (x, y) = (of(&a), of(&b));
            prop_assert_eq!(x.union(&y), of(&a.union(&b).copied().collect()));
            prop_assert_eq!(x.intersection(&y), of(&a.intersection(&b).copied().collect()));
            prop_assert_eq!(x.difference(&y), of(&a.difference(&b).copied().collect()));
            prop_assert_eq!(x.overlap(&y) as usize, a.intersection(&b).count());
            prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
            prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
            prop_assert_eq!(x.iter().map(|c| c.0).collect::<Vec<_>>(), a.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,30}") {
            let _ = text.parse::<CpuSet>();
        }
    }

    #[test]
    fn removing_the_last_cpu_gives_the_empty_set() {
        let mut set: CpuSet = [CpuId(700)].into_iter().collect();
        assert!(set.remove(CpuId(700)));
        assert_eq!(set, CpuSet::new());
        assert!(set.is_empty());
    }

    #[test]
    fn a_bad_list_names_the_part_and_the_form() {
        for (list, part) in [
            ("0-3,x", "x"),
            ("5-2", "5-2"),
            ("1,,2", ""),
            ("0-99999999", "0-99999999"),
        ] {
            let error = list.parse::<CpuSet>().unwrap_err().to_string();
            assert!(
                error.contains(&format!("{part:?}")) && error.contains("0-3,8"),
                "{error}"
            );
        }
    }
}
