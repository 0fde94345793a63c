//! Arguments that a rule names.

use crate::{Arguments, Operation, Operations};
use std::fmt;
use std::path::PathBuf;

/// Arguments a call must have for a rule to apply; `None` is any. What a call does not have, no rule that names it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Bytes to read, write or sync.
    pub length: Option<u64>,
    /// Where in the file.
    pub offset: Option<i64>,
    /// Where the offset counts from.
    pub whence: Option<i32>,
    /// Bits of permission.
    pub mode: Option<u32>,
    /// A device's number.
    pub device: Option<u64>,
    /// The owner to be.
    pub uid: Option<u32>,
    /// The group to be.
    pub gid: Option<u32>,
    /// Flags of a call that opens or looks up.
    pub flags: Option<u64>,
    /// The other path of a link or a move, or the target of a symbolic link.
    pub other: Option<PathBuf>,
    /// The size to be.
    pub size: Option<u64>,
    /// The first byte of a mapping in the file.
    pub start: Option<u64>,
    /// One past the last byte of a mapping in the file.
    pub end: Option<u64>,
}

/// The arguments by name, with the operations that have them.
pub const ARGUMENTS: [(&str, Operations); 12] = {
    use Operation::{
        Create, Fsync, Link, Llseek, Lookup, Mkdir, Mknod, Mmap, Read, Rename, Setattr, Symlink, Truncate, Write,
    };
    [
        ("length", Operations::of(&[Read, Write, Fsync])),
        ("offset", Operations::of(&[Read, Write, Llseek])),
        ("whence", Operations::of(&[Llseek])),
        ("mode", Operations::of(&[Create, Mkdir, Mknod, Setattr])),
        ("device", Operations::of(&[Mknod])),
        ("uid", Operations::of(&[Setattr])),
        ("gid", Operations::of(&[Setattr])),
        ("flags", Operations::of(&[Read, Write, Create, Lookup])),
        ("other", Operations::of(&[Link, Symlink, Rename])),
        ("size", Operations::of(&[Truncate])),
        ("start", Operations::of(&[Mmap])),
        ("end", Operations::of(&[Mmap])),
    ]
};

impl Conditions {
    /// Whether a call's arguments are those.
    pub fn hold(&self, arguments: &Arguments<'_>) -> bool {
        fn same<T: PartialEq + Copy>(wanted: Option<T>, given: Option<T>) -> bool {
            wanted.is_none() || wanted == given
        }
        let other = self.other.as_ref().is_none_or(|wanted| arguments.other == Some(wanted));
        same(self.length, arguments.length)
            && same(self.offset, arguments.offset)
            && same(self.whence, arguments.whence)
            && same(self.mode, arguments.mode)
            && same(self.device, arguments.device)
            && same(self.uid, arguments.uid)
            && same(self.gid, arguments.gid)
            && same(self.flags, arguments.flags)
            && same(self.size, arguments.size)
            && same(self.start, arguments.range.map(|range| range.0))
            && same(self.end, arguments.range.map(|range| range.1))
            && other
    }

    /// How many arguments are named.
    pub fn count(&self) -> usize {
        self.named().len()
    }

    /// The operations that have all arguments named here: no other call can fulfil it.
    pub fn possible(&self) -> Operations {
        let named = self.named();
        let sets = ARGUMENTS.iter().filter(|(name, _)| named.iter().any(|(other, _)| other == name));
        sets.fold(Operations::ALL, |set, (_, operations)| set.and(*operations))
    }

    /// Arguments that fulfil it.
    pub fn sample(&self) -> Arguments<'_> {
        let range = (self.start.is_some() || self.end.is_some())
            .then(|| (self.start.unwrap_or(0), self.end.unwrap_or(u64::MAX)));
        Arguments {
            length: self.length,
            offset: self.offset,
            whence: self.whence,
            mode: self.mode,
            device: self.device,
            uid: self.uid,
            gid: self.gid,
            flags: self.flags,
            other: self.other.as_deref(),
            size: self.size,
            range,
        }
    }

    /// What is named, with its value; numbers as they are written, the mode in octal, the path escaped.
    pub fn named(&self) -> Vec<(&'static str, String)> {
        fn show<T: ToString>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        let other = self.other.as_ref().map(|path| crate::text::write(path.as_os_str().as_encoded_bytes()));
        let all = [
            ("length", show(self.length.as_ref())),
            ("offset", show(self.offset.as_ref())),
            ("whence", show(self.whence.as_ref())),
            ("mode", self.mode.map(|mode| format!("0o{mode:o}"))),
            ("device", show(self.device.as_ref())),
            ("uid", show(self.uid.as_ref())),
            ("gid", show(self.gid.as_ref())),
            ("flags", show(self.flags.as_ref())),
            ("other", other),
            ("size", show(self.size.as_ref())),
            ("start", show(self.start.as_ref())),
            ("end", show(self.end.as_ref())),
        ];
        all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<_> = self.named().into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
        out.write_str(&named.join(", "))
    }
}
