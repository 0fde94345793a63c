//! A small seeded generator whose sequence never changes.
//!
//! A failing test prints a seed; the seed must still fail after a dependency is upgraded, so the
//! generator is written out here: `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom
//! number generators", OOPSLA 2014). Fast, 64 bits of state, good enough for choosing faults and
//! making bytes that do not compress. Not for keys.

/// A generator that chooses among few things, as tests of random rules do.
#[derive(Clone, Debug)]
pub struct Dice(Prng);

impl Dice {
    /// A generator for `seed`; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Self(Prng::new(seed))
    }

    /// A number in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() >> 33) as usize % bound.max(1)
    }

    /// One of these, of which there must be some.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A deterministic stream of random numbers.
#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    /// A generator for `seed`; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 when `bound` is 0. The bias is below 2^-32 for bounds used in tests.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// An index into something of `len` items.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p` (0 never, 1 always).
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// A standard normal number (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// An independent generator, so that one part's draws do not shift another's.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}
