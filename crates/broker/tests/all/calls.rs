//! Each call, allowed and refused.

use crate::support::*;

#[test]
fn debug() {
    let script = "
os.makedirs('/tmp/hfdbg/x', exist_ok=True)
fd = os.open('/tmp/hfdbg/x', os.O_PATH|os.O_NOFOLLOW)
say('fstat', lambda: os.fstat(fd))
say('procstat', lambda: os.stat('/proc/self/fd/%d' % fd))
say('chmod', lambda: os.chmod('/proc/self/fd/%d' % fd, 0o750))
libc.fchmodat.argtypes=[ctypes.c_int, ctypes.c_char_p, ctypes.c_uint, ctypes.c_int]
def f():
    if libc.fchmodat(-100, b'/tmp/hfdbg/x', 0o750, 0x100) < 0: raise OSError(ctypes.get_errno(), 'x')
say('fchmodat', f)
def g():
    if libc.fchmodat(os.open('/tmp/hfdbg', os.O_RDONLY), b'x', 0o750, 0x100) < 0: raise OSError(ctypes.get_errno(), 'x')
say('fchmodat', g)
";
    println!("{}", said(all(), python(script)));
}
