//! Reading and writing by every call there is, decided by offset and length.

use crate::support::{all, folder, policy, run, said};
use holdfast_policy::Operation;

/// Every call that reads 4 bytes at 4 of `f`, and 8 at 0, as `name`.
const READS: &str = "
f = os.open(D + '/f', os.O_RDONLY)
def at(offset): os.lseek(f, offset, 0); return f
def both(name, what):
    say(name + ' 4', lambda: what(4, 4))
    say(name + ' 0', lambda: what(0, 8))
def same(got, offset, length):
    assert bytes(got) == b'0123456789abcdef'[offset:offset + length], (got, offset, length)
def aio(offset, length):
    context, buffer = ctypes.c_ulong(0), ctypes.create_string_buffer(length)
    call(206, 8, ctypes.byref(context))
    block = (ctypes.c_ubyte * 64)()
    struct.pack_into('<QIIHhIQQq', block, 0, 0, 0, 0, 0, 0, f, ctypes.addressof(buffer), length, offset)
    pointer = ctypes.c_void_p(ctypes.addressof(block))
    call(209, context, 1, ctypes.byref(pointer))
    events = (ctypes.c_ubyte * 32)()
    call(208, context, 1, 1, events, 0)
    result = struct.unpack_from('<q', events, 16)[0]
    call(207, context)
    if result < 0: raise OSError(-result, 'aio')
    same(buffer.raw[:result], offset, length)
def split(offset, length):
    one, two = bytearray(1), bytearray(length - 1)
    assert os.preadv(f, [one, two], offset) == length
    same(one + two, offset, length)
def flags(offset, length):
    buffer = bytearray(length)
    assert os.preadv(f, [buffer], offset, os.RWF_HIPRI) == length
    same(buffer, offset, length)
def vector(offset, length):
    buffer = bytearray(length)
    assert os.readv(at(offset), [buffer]) == length
    same(buffer, offset, length)
both('read', lambda offset, length: same(os.read(at(offset), length), offset, length))
both('pread', lambda offset, length: same(os.pread(f, length, offset), offset, length))
both('readv', vector)
both('preadv', split)
both('preadv2', flags)
both('aio', aio)
";

fn answers(said: &str, wanted: &str) -> Vec<String> {
    said.lines().filter(|line| !line.ends_with(wanted)).map(str::to_owned).collect()
}

#[test]
fn every_call_that_reads_is_decided_by_offset_and_length() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "0123456789abcdef").expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"read\"]\npath = {path:?}\narguments = {{ offset = 4, length = 4 }}\n");
    let done = run(policy(&rule), crate::support::python(&path, READS));
    assert!(done.outcome.success(), "{done:?}");
    let (refused, allowed): (Vec<_>, Vec<_>) = done.said.lines().partition(|line| line.contains(" 4 "));
    assert_eq!((refused.len(), allowed.len()), (6, 6), "{}", done.said);
    assert_eq!(answers(&refused.join("\n"), " EACCES"), Vec::<String>::new(), "{}", done.said);
    assert_eq!(answers(&allowed.join("\n"), " ok"), Vec::<String>::new(), "{}", done.said);
    assert_eq!(done.counters.denied, 6);
    assert!(
        done.told.iter().all(|told| told.operation == Operation::Read && told.path == path.join("f")),
        "{:?}",
        done.told
    );
    // The other way round: nothing but that.
    let rules = format!(
        "[[rule]]\ndeny = [\"read\"]\npath = {path:?}\n[[rule]]\nallow = [\"read\"]\npath = {path:?}\narguments = {{ offset = 4, length = 4 }}\n"
    );
    let said = said(policy(&rules), crate::support::python(&path, READS));
    let (allowed, refused): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.contains(" 4 "));
    assert_eq!(answers(&refused.join("\n"), " EACCES"), Vec::<String>::new(), "{said}");
    assert_eq!(answers(&allowed.join("\n"), " ok"), Vec::<String>::new(), "{said}");
}

#[test]
fn a_file_of_which_no_call_is_allowed_cannot_be_opened() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "0123456789abcdef").expect("a file");
    let rules = format!(
        "[[rule]]\ndeny = [\"read\", \"write\"]\npath = {path:?}\n[[rule]]\nallow = [\"read\"]\npath = {path:?}\narguments = {{ length = 4 }}\n"
    );
    let script =
        "say('read', lambda: os.open(D + '/f', os.O_RDONLY)); say('write', lambda: os.open(D + '/f', os.O_WRONLY))";
    assert_eq!(said(policy(&rules), crate::support::python(&path, script)), "read ok\nwrite EACCES\n");
}

/// Every call that writes 4 bytes at 4, and 8 at 0.
const WRITES: &str = "
f = os.open(D + '/f', os.O_RDWR)
def at(offset): os.lseek(f, offset, 0); return f
def both(name, what):
    say(name + ' 4', lambda: what(4, b'WXYZ'))
    say(name + ' 0', lambda: what(0, b'ABCDEFGH'))
def all_of(written, bytes): assert written == len(bytes), written
both('write', lambda offset, bytes: all_of(os.write(at(offset), bytes), bytes))
both('pwrite', lambda offset, bytes: all_of(os.pwrite(f, bytes, offset), bytes))
both('writev', lambda offset, bytes: all_of(os.writev(at(offset), [bytes[:1], bytes[1:]]), bytes))
both('pwritev', lambda offset, bytes: all_of(os.pwritev(f, [bytes], offset), bytes))
both('pwritev2', lambda offset, bytes: all_of(os.pwritev(f, [bytes[:2], bytes[2:]], offset, os.RWF_SYNC), bytes))
both('fallocate', lambda offset, bytes: os.posix_fallocate(f, offset, len(bytes)))
";

#[test]
fn every_call_that_writes_is_decided_by_offset_and_length() {
    let (_guard, path) = folder();
    let file = path.join("f");
    std::fs::write(&file, "0123456789abcdef").expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"write\"]\npath = {path:?}\narguments = {{ offset = 4, length = 4 }}\n");
    let said = said(policy(&rule), crate::support::python(&path, WRITES));
    let (refused, allowed): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.contains(" 4 "));
    assert_eq!((refused.len(), allowed.len()), (6, 6), "{said}");
    assert_eq!(answers(&refused.join("\n"), " EACCES"), Vec::<String>::new(), "{said}");
    assert_eq!(answers(&allowed.join("\n"), " ok"), Vec::<String>::new(), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "ABCDEFGH89abcdef");
}

#[test]
fn what_is_appended_is_decided_by_where_it_goes() {
    let (_guard, path) = folder();
    let file = path.join("f");
    std::fs::write(&file, "0123").expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"write\"]\npath = {path:?}\narguments = {{ offset = 8 }}\n");
    let script = "
f = os.open(D + '/f', os.O_WRONLY | os.O_APPEND)
say('at 4', lambda: os.write(f, b'4567'))
say('at 8', lambda: os.write(f, b'89'))
";
    assert_eq!(said(policy(&rule), crate::support::python(&path, script)), "at 4 ok\nat 8 EACCES\n");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "01234567");
}

/// What reads a file by pages that the kernel may have in memory.
const BY_PAGES: &str = "
f = os.open(D + '/f', os.O_RDONLY)
out = os.open(D + '/out', os.O_RDWR | os.O_CREAT)
read, write = os.pipe()
def mapped(flags):
    pid = os.fork()
    if pid == 0:
        try: got = mmap.mmap(f, 16, flags, mmap.PROT_READ)[:]
        except OSError as error: os._exit(error.errno)
        os._exit(0 if got == b'0123456789abcdef' else 99)
    status = os.waitpid(pid, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGBUS: raise OSError(errno.EFAULT, 'bus error')
    if code: raise OSError(code, 'mmap')
say('sendfile', lambda: os.sendfile(out, f, 0, 16))
say('splice', lambda: os.splice(f, write, 16, offset_src=0))
say('copy_file_range', lambda: os.copy_file_range(f, out, 16, 0, 0))
say('private', lambda: mapped(mmap.MAP_PRIVATE))
say('shared', lambda: mapped(mmap.MAP_SHARED))
say('io_uring', lambda: call(425, 8, ctypes.create_string_buffer(128)))
say('read', lambda: os.pread(f, 16, 0))
";

#[test]
fn nothing_reads_by_pages_what_is_decided_call_by_call() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "0123456789abcdef").expect("a file");
    let spliced = "sendfile EINVAL\nsplice EINVAL\ncopy_file_range EINVAL\n";
    // Mapping is refused as well.
    let rules = format!(
        "[[rule]]\ndeny = [\"mmap\"]\npath = {path:?}\n[[rule]]\ndeny = [\"read\"]\npath = {path:?}\narguments = {{ offset = 4 }}\n"
    );
    let got = said(policy(&rules), crate::support::python(&path, BY_PAGES));
    assert_eq!(got, format!("{spliced}private EFAULT\nshared ENODEV\nio_uring EPERM\nread ok\n"));
    // It is allowed: what is mapped has been allowed, and what is read is still asked about.
    let rule = format!("[[rule]]\ndeny = [\"read\"]\npath = {path:?}\narguments = {{ offset = 0 }}\n");
    let got = said(policy(&rule), crate::support::python(&path, BY_PAGES));
    assert_eq!(got, format!("{spliced}private ok\nshared ENODEV\nio_uring EPERM\nread EACCES\n"));
}

#[test]
fn a_file_that_may_be_read_and_not_mapped_is_read_and_not_mapped() {
    let (_guard, path) = folder();
    std::fs::write(path.join("f"), "0123456789abcdef").expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"mmap\"]\npath = {path:?}\n");
    let done = run(policy(&rule), crate::support::python(&path, BY_PAGES));
    assert!(done.said.ends_with("private EFAULT\nshared ENODEV\nio_uring EPERM\nread ok\n"), "{done:?}");
    assert!(done.told.iter().any(|told| told.operation == Operation::Mmap && !told.allowed), "{done:?}");
    // Where nothing is refused a mapping is one.
    let got = said(all(), crate::support::python(&path, BY_PAGES));
    assert!(got.ends_with("private ok\nshared ok\nio_uring EPERM\nread ok\n"), "{got}");
}

#[test]
fn a_long_call_is_one_up_to_the_length_that_rules_may_name() {
    let (_guard, path) = folder();
    let most = holdfast_policy::PIECE_BYTES_MAX;
    std::fs::write(path.join("f"), vec![7; 3 << 20]).expect("a file");
    let rule = format!("[[rule]]\ndeny = [\"read\", \"write\"]\npath = {path:?}\narguments = {{ length = {most} }}\n");
    // A buffer that begins in the middle of a page takes one page more.
    let script = format!(
        "
f = os.open(D + '/f', os.O_RDWR)
room = mmap.mmap(-1, {most} + 8192)
for start in (0, 1, 4095):
    view = memoryview(room)[start:start + {most}]
    say('read', lambda: os.preadv(f, [view], 5))
    say('write', lambda: os.pwritev(f, [view], 5))
    assert os.preadv(f, [view[1:]], 5) == {most} - 1
    say('one less', lambda: os.pwritev(f, [view[1:]], 5))
"
    );
    let got = said(policy(&rule), crate::support::python(&path, &script));
    assert_eq!(got, "read EACCES\nwrite EACCES\none less ok\n".repeat(3));
}
