//! Giving memory back to the system.

/// Returns what the allocator keeps for later and nobody uses. glibc keeps a heap for each thread and gives back only their ends by
/// itself, so after a burst of work the process would stay as large as it was at its busiest. Takes milliseconds; a
/// system with another C library looks after itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a foreign function; see the safety comment")]
pub(crate) fn give_back() {
    // SAFETY: malloc_trim(3) takes a number, may be called from any thread, and changes nothing that is in use. Its answer says
    // whether there was anything to return.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// See the other one.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}

/// Has all threads share two of the allocator's heaps. glibc makes up to eight for each processor, and each keeps what its threads freed: a mount that keeps and forgets
/// blocks on many threads came to twice what it holds that way, and went on growing for an hour. To be called before there are threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a foreign function; see the safety comment")]
pub fn share_heaps() {
    // SAFETY: mallopt(3) takes two numbers and changes nothing that is in use. Where it refuses, all stays as it was.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// See the other one.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn share_heaps() {}
