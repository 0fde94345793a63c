//! The operations a rule can name.

/// What a program does to a file or a folder.
///
/// The set is that of `BoesFS` (its 20 hooks), with `truncate`, `xattr` and `exec`, which it could not tell apart or did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reading content: `open` for reading, and every call that reads.
    Read,
    /// Writing content: `open` for writing, and every call that writes.
    Write,
    /// Making a regular file.
    Create,
    /// Making a folder.
    Mkdir,
    /// Making a device, FIFO or socket.
    Mknod,
    /// Giving a file another name; asked of the file and of the name.
    Link,
    /// Making a symbolic link.
    Symlink,
    /// Moving; asked of the old name and of the new one.
    Rename,
    /// Removing a name of what is no folder.
    Unlink,
    /// Removing a folder.
    Rmdir,
    /// Finding out that a name is there: any call that takes a path.
    Lookup,
    /// Reading attributes: `stat`, `access`, `readlink`, and extended ones.
    Getattr,
    /// Changing mode, owner or times.
    Setattr,
    /// Changing the size.
    Truncate,
    /// Setting and removing extended attributes.
    Xattr,
    /// Listing a folder.
    Readdir,
    /// Mapping a file into memory.
    Mmap,
    /// Executing a file.
    Exec,
    /// Asking about the file system.
    Statfs,
    /// Syncing a file.
    Fsync,
    /// Moving the offset of an open file.
    Llseek,
}

impl Operation {
    /// All of them, in the order of the enumeration.
    pub const ALL: [Operation; 21] = [
        Operation::Read,
        Operation::Write,
        Operation::Create,
        Operation::Mkdir,
        Operation::Mknod,
        Operation::Link,
        Operation::Symlink,
        Operation::Rename,
        Operation::Unlink,
        Operation::Rmdir,
        Operation::Lookup,
        Operation::Getattr,
        Operation::Setattr,
        Operation::Truncate,
        Operation::Xattr,
        Operation::Readdir,
        Operation::Mmap,
        Operation::Exec,
        Operation::Statfs,
        Operation::Fsync,
        Operation::Llseek,
    ];

    /// Its name in a policy, and in an audit line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Create => "create",
            Operation::Mkdir => "mkdir",
            Operation::Mknod => "mknod",
            Operation::Link => "link",
            Operation::Symlink => "symlink",
            Operation::Rename => "rename",
            Operation::Unlink => "unlink",
            Operation::Rmdir => "rmdir",
            Operation::Lookup => "lookup",
            Operation::Getattr => "getattr",
            Operation::Setattr => "setattr",
            Operation::Truncate => "truncate",
            Operation::Xattr => "xattr",
            Operation::Readdir => "readdir",
            Operation::Mmap => "mmap",
            Operation::Exec => "exec",
            Operation::Statfs => "statfs",
            Operation::Fsync => "fsync",
            Operation::Llseek => "llseek",
        }
    }
}
