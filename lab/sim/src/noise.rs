//! Randomness from one seed: one stream for each purpose.

use mapper_model::random::SplitMix64;

/// A stream of random numbers. The same seed and purpose give the same numbers.
#[derive(Clone, Debug)]
pub struct Noise(SplitMix64);

impl Noise {
    /// The stream for a purpose, such as an application's counters.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut stream = SplitMix64::new(seed ^ purpose.wrapping_mul(0xD134_2543_DE82_EF95));
        stream.next_u64();
        Self(stream)
    }

    /// From 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A factor around 1 with this relative scatter, and 1 on average.
    pub fn factor(&mut self, scatter: f64) -> f64 {
        (scatter * self.normal() - scatter * scatter / 2.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_different_purposes_differ_and_repeat() {
        let first = |seed, purpose| Noise::new(seed, purpose).unit().to_bits();
        assert_eq!(first(1, 1), first(1, 1));
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
    }
}
