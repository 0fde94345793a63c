//! The one system call that neither the standard library nor rustix offers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Asks the kernel to begin writing the range's dirty pages to the disk, without waiting for the disk to finish
/// (`sync_file_range(2)` with `SYNC_FILE_RANGE_WRITE`). It promises nothing and consumes no error: a later sync still
/// reports what went wrong.
///
/// # Errors
/// Where the file system cannot do so.
#[expect(unsafe_code, reason = "a foreign function; see the safety comment")]
pub fn begin_writeback(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = i64::try_from(offset).map_err(out_of_range)?;
    let bytes = i64::try_from(bytes).map_err(out_of_range)?;
    // SAFETY: the call takes numbers only and touches no memory of this process; the descriptor is open for as long as
    // `file` is borrowed.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
