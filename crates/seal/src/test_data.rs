//! Bytes for tests: some that shrink and some that do not.

/// `bytes` bytes that no codec shrinks, the same every time.
pub(crate) fn even_bytes(bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut out);
    out
}

/// `bytes` bytes like source code.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    (0u32..)
        .flat_map(|n| format!("    let value_{n} = compute({});\n", n.wrapping_mul(2_654_435_761)).into_bytes())
        .take(bytes)
        .collect()
}
