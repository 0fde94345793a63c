//! Starting a sandbox, and what can be done with one that runs.

use crate::child::{self, Descriptors};
use crate::count::Counter;
use crate::error::{Error, Step};
use crate::group::{self, Groups, Unbounded, Whole};
use crate::layer::Lock;
use crate::limit::{Limit, Outcome, Status};
use crate::live::View;
use crate::plan::{Plan, handed, is_copy};
use crate::sandbox::{Limits, Mount, Sandbox, Source, Stream};
use crate::sys::{self, Forked};
use crate::wire::{Failure, Message, hear, pair, tell};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mount::{fsconfig_create, fsconfig_set_string};
use rustix::net::RecvFlags;
use rustix::process::{PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A sandbox that was started. Dropping it kills everything in it and waits until that is gone.
///
/// The methods can be called from several threads: one may wait while another kills.
#[derive(Debug)]
pub struct Running {
    pid: i32,
    process: OwnedFd,
    control: Mutex<Control>,
    report: OwnedFd,
    paths: Vec<std::path::PathBuf>,
    listener: Option<OwnedFd>,
    view: Mutex<View>,
    /// Without namespaces.
    alone: bool,
    weaker: Vec<String>,
    counter: Option<Counter>,
    _locks: Vec<Lock>,
    groups: Option<Groups>,
}

/// The end of init's socket, and what was already heard from it.
#[derive(Debug)]
struct Control {
    socket: OwnedFd,
    ended: Option<(i32, u32)>,
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn failed(step: Step) -> impl Fn(Errno) -> Error {
    move |errno| Error::Step { step, path: None, why: errno.into() }
}

/// Is given each folder of [`Source::Served`] with the device by which the kernel asks (`fuse`(4)), and must answer what it asks from then on, by other threads: the sandbox is
/// made meanwhile, and may have to wait for answers.
pub type Serve<'a> = dyn FnMut(&Path, OwnedFd) -> std::io::Result<()> + 'a;

impl Sandbox {
    /// Starts the program. When this returns it is being executed; or, with [`Sandbox::notify`], waits to be, and whether it could be is told by
    /// [`Running::wait`].
    pub fn start(self) -> Result<Running, Error> {
        self.start_serving(&mut |_, _| Err(Errno::NOTSUP.into()))
    }

    /// As [`Sandbox::start`], with somebody who serves the folders of [`Source::Served`]. When the last copy of a device is closed, every call in its folder fails.
    pub fn start_serving(self, serve: &mut Serve<'_>) -> Result<Running, Error> {
        let mut plan = Plan::new(&self)?;
        let mut locks = Vec::new();
        for entry in plan.entries.iter().filter(|entry| is_copy(&entry.source)) {
            if let Source::CopyOnWrite { changes } = &entry.source {
                locks.push(crate::layer::prepare(&entry.path, changes)?);
            }
        }
        let streams = streams(&self).map_err(|why| failed(Step::Streams)(errno(&why)))?;
        handed::hand_over(&mut plan, &streams)?;
        let (groups, unbounded) = group_or_count(&self)?;
        let running = Running::fork(plan, &streams, locks, groups)?;
        // The caller's copies would keep pipes open that the program has closed.
        drop(streams);
        let mut running = running.begin(serve)?;
        if !unbounded.is_empty() {
            running.count(&self.limits, &unbounded)?;
        }
        Ok(running)
    }
}

/// What bounds all processes together; and what nothing does, where that is good enough.
fn group_or_count(sandbox: &Sandbox) -> Result<(Option<Groups>, Vec<Unbounded>), Error> {
    let (groups, unbounded) = Groups::new(&group::wanted(&sandbox.limits));
    let counts = sandbox.count && !sandbox.no_namespaces;
    if unbounded.is_empty() || counts { Ok((groups, unbounded)) } else { Err(Error::Unbounded(unbounded)) }
}

fn streams(sandbox: &Sandbox) -> std::io::Result<[OwnedFd; 3]> {
    let stream = |stream: &Stream, own: BorrowedFd<'_>| -> std::io::Result<OwnedFd> {
        let null = || open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        // Not in the place of a standard stream, so that putting one in its place never overwrites another.
        let high = |from: BorrowedFd<'_>| fcntl_dupfd_cloexec(from, 3);
        Ok(match stream {
            Stream::Null => high(null()?.as_fd())?,
            Stream::Given(given) => high(given.as_fd())?,
            // The caller's may be closed.
            Stream::Inherit => match high(own) {
                Err(Errno::BADF) => high(null()?.as_fd())?,
                other => other?,
            },
        })
    };
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    Ok([
        stream(&sandbox.stdin, input.as_fd())?,
        stream(&sandbox.stdout, output.as_fd())?,
        stream(&sandbox.stderr, error.as_fd())?,
    ])
}

impl Running {
    fn fork(plan: Plan, streams: &[OwnedFd; 3], locks: Vec<Lock>, groups: Option<Groups>) -> Result<Self, Error> {
        let in_step = failed(Step::Namespaces);
        let (report, their_report) = pair().map_err(&in_step)?;
        let (control, their_control) = pair().map_err(&in_step)?;
        let supervisor = pidfd_open(getpid(), PidfdFlags::empty()).map_err(&in_step)?;
        let supervisor = fcntl_dupfd_cloexec(&supervisor, 3).map_err(&in_step)?;
        let [input, output, error] = streams;
        let doors = groups.as_ref().map(Groups::doors).unwrap_or_default();
        let descriptors = Descriptors {
            report: their_report.as_fd(),
            control: their_control.as_fd(),
            supervisor: supervisor.as_fd(),
            doors: &doors,
            used: groups.as_ref().and_then(|groups| groups.used.as_ref()).map(|used| (used.file.as_fd(), used.unit_ns)),
            overflow: groups.as_ref().and_then(|groups| groups.overflow.as_ref()).map(AsFd::as_fd),
            streams: [input.as_fd(), output.as_fd(), error.as_fd()],
        };
        // No handler of the caller's may run in the child.
        let before = sys::block_signals();
        // SAFETY: the child only makes system calls until it executes the program or ends.
        #[allow(unsafe_code)]
        let forked = unsafe { sys::fork(plan.namespaces, 0) };
        if let Ok(Forked::Child) = forked {
            child::run(&plan, &descriptors);
        }
        sys::restore_signals(&before);
        let Forked::Parent(pid, process) = forked.map_err(&in_step)? else { unreachable!("the child never returns") };
        let Plan { paths, entries, root, widen, namespaces, .. } = plan;
        let control = Mutex::new(Control { socket: control, ended: None });
        let view = Mutex::new(View::new(&entries, root, widen));
        Ok(Self {
            pid,
            process,
            control,
            report,
            paths,
            listener: None,
            view,
            alone: namespaces == 0,
            weaker: Vec::new(),
            counter: None,
            _locks: locks,
            groups,
        })
    }

    /// Counts what no control group bounds, and notes what nobody counts.
    fn count(&mut self, limits: &Limits, unbounded: &[Unbounded]) -> Result<(), Error> {
        let is_open = |limit| unbounded.iter().any(|one| one.limit == limit);
        let memory = limits.memory_bytes.filter(|_| is_open(Whole::Memory));
        let cpu_s = limits.cpu_s.filter(|_| is_open(Whole::CpuTime));
        if memory.is_some() || cpu_s.is_some() {
            let process = self.process.try_clone().map_err(|why| failed(Step::Limits)(errno(&why)))?;
            let counter = Counter::start(self.pid, process, memory, cpu_s);
            self.counter = Some(counter.map_err(|why| failed(Step::Limits)(errno(&why)))?);
        }
        self.weaker = unbounded.iter().map(Unbounded::instead).collect();
        Ok(())
    }

    /// Limits of all processes together that are not held as they were asked for, because this machine lets no control group hold them ([`Sandbox::count`]).
    pub fn weaker(&self) -> &[String] {
        &self.weaker
    }

    /// Hears what setting up says, until the program is executed.
    fn begin(mut self, serve: &mut Serve<'_>) -> Result<Self, Error> {
        let mut ready = false;
        loop {
            let heard = hear(self.report.as_fd(), RecvFlags::empty()).map_err(failed(Step::Namespaces))?;
            match heard {
                None if ready => return Ok(self),
                // Dropping it waits for its end.
                None if self.groups.as_ref().is_some_and(Groups::overflowed) => return Err(Error::Memory),
                None => return Err(Error::Killed),
                Some((Message::Failed(failure), _)) => return Err(self.failure(failure)),
                Some((Message::Namespaces, [user, mount])) => {
                    self.view.get_mut().unwrap_or_else(PoisonError::into_inner).enter_by(user, mount);
                }
                Some((Message::Serve(entry), [Some(device), Some(file_system)])) => {
                    let made = self.make_served(entry, device, &file_system, serve);
                    // If that fails, the next that is heard is that nobody is there.
                    let _ = tell(self.report.as_fd(), Message::Done(made.err().map_or(0, Errno::raw_os_error)), &[]);
                }
                Some((Message::Listener, [listener, _])) => {
                    self.listener = listener;
                    return Ok(self);
                }
                Some((Message::Ready, _)) => ready = true,
                Some(_) => return Err(failed(Step::Namespaces)(Errno::PROTO)),
            }
        }
    }

    /// Makes a file system, of which only processes of this account may ask anything, and has it served.
    fn make_served(
        &self,
        entry: u32,
        device: OwnedFd,
        file_system: &OwnedFd,
        serve: &mut Serve<'_>,
    ) -> Result<(), Errno> {
        let path = usize::try_from(entry).ok().and_then(|number| self.paths.get(number)).ok_or(Errno::INVAL)?;
        let (user, group) = sys::account();
        let number = |number: u32| CString::new(number.to_string()).unwrap_or_default();
        let options = [
            (c"source", c"holdfast".to_owned()),
            (c"fd", number(device.as_raw_fd().unsigned_abs())),
            (c"rootmode", c"40000".to_owned()),
            (c"user_id", number(user)),
            (c"group_id", number(group)),
        ];
        for (name, value) in &options {
            fsconfig_set_string(file_system, *name, value)?;
        }
        fsconfig_create(file_system)?;
        serve(path, device).map_err(|error| errno(&error))
    }

    fn failure(&self, failure: Failure) -> Error {
        let path = usize::try_from(failure.entry).ok().and_then(|number| self.paths.get(number).cloned());
        Error::Step { step: failure.step, path, why: failure.errno.into() }
    }

    /// The sandbox's first process, as the caller's namespace numbers it. What kills it kills the sandbox.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The processes in the sandbox but the first one, as the caller's namespace numbers them. They are all only while it is frozen.
    pub fn processes(&self) -> Vec<i32> {
        crate::processes::below(self.pid).split_off(1)
    }

    /// A descriptor that becomes readable when everything in the sandbox has ended (`pidfd_open`(2)).
    pub fn process(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// Where questions about the calls of [`Sandbox::notify`] are read from; `None` if there are no such calls, or it was taken.
    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Takes the listener. When its last copy is closed, the calls fail with `ENOSYS`.
    pub fn take_listener(&mut self) -> Option<OwnedFd> {
        self.listener.take()
    }

    /// Waits until everything in the sandbox has ended, and says how the program did.
    pub fn wait(&self) -> Result<Outcome, Error> {
        loop {
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], None) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(Step::Fork)(error)),
                Ok(_) => break,
            }
        }
        self.outcome()
    }

    /// How the program ended, if it has and everything in the sandbox is gone.
    pub fn try_wait(&self) -> Result<Option<Outcome>, Error> {
        let mut events = [PollFd::new(&self.process, PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut events, Some(&now)) {
            Ok(0) | Err(Errno::INTR) => Ok(None),
            Ok(_) => self.outcome().map(Some),
            Err(error) => Err(failed(Step::Fork)(error)),
        }
    }

    /// What is known once init has ended.
    fn outcome(&self) -> Result<Outcome, Error> {
        // Its place in the process table; it may have been taken away by an earlier call.
        let _ = sys::wait_for(self.process.as_fd(), true);
        let mut control = self.control();
        while control.ended.is_none() {
            match hear(control.socket.as_fd(), RecvFlags::DONTWAIT) {
                Ok(Some((Message::Ended { status, limit }, _))) => control.ended = Some((status, limit)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let ended = control.ended;
        drop(control);
        if let Ok(Some((Message::Failed(failure), _))) = hear(self.report.as_fd(), RecvFlags::DONTWAIT) {
            return Err(self.failure(failure));
        }
        let (status, limit) = match ended {
            Some((status, limit)) => (Status::of(status), Limit::from_number(limit)),
            // Init itself was killed, and all with it.
            None => (Status::Signalled(libc::SIGKILL), None),
        };
        let overflowed = self.groups.as_ref().is_some_and(Groups::overflowed).then_some(Limit::Memory);
        let counted = self.counter.as_ref().and_then(Counter::reached);
        Ok(Outcome { status, limit: limit.or(overflowed).or(counted) })
    }

    /// Kills everything in the sandbox, whatever it ignores. [`Running::wait`] says when it is gone.
    pub fn kill(&self) {
        if self.alone {
            // Its first process must live to find the others.
            let _ = tell(self.control().socket.as_fd(), Message::Kill, &[]);
            let _ = pidfd_send_signal(&self.process, Signal::CONT);
            return;
        }
        // It may have ended.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Stops every process in the sandbox, at once: the kernel sends all of them a signal in one step, in which none can be started, and that no process can refuse.
    /// Each stops before its next instruction; one inside of a system call when that returns or can be interrupted. Time by the clock goes on.
    pub fn freeze(&self) -> Result<(), Error> {
        if self.alone {
            let why = "only a namespace finds all processes in one step".to_owned();
            return Err(Error::Unsupported { what: "freezing without namespaces".to_owned(), why });
        }
        self.ask(Message::Freeze(true))
    }

    /// Lets every process go on, also such as had been stopped by the program itself.
    pub fn thaw(&self) -> Result<(), Error> {
        self.ask(Message::Freeze(false))
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: i32) -> Result<(), Error> {
        if !(1..=64).contains(&signal) {
            return Err(Error::Invalid(format!("{signal} is no signal")));
        }
        self.ask(Message::Signal(signal))
    }

    /// Changes what the running program may do with paths, without stopping it. Entries are those of the view, with the rights that they shall have from now on, or
    /// new ones inside of it; what is not named stays as it is.
    ///
    /// Rights of an entry are changed in place, so they hold for working directories and open folders as well. A file that is open stays open as it was opened. A
    /// path that has become [`crate::Access::Hidden`] is covered: what is open in it, or whose working directory is, still sees it. Rights cannot go beyond those
    /// at the start unless [`Sandbox::widen`] was set. On an error, entries before the one that it names have been changed.
    pub fn change_view(&self, entries: &[Mount]) -> Result<(), Error> {
        if self.alone {
            let why = "without namespaces Landlock holds the view, and cannot be changed".to_owned();
            return Err(Error::Unsupported { what: "a change of the view".to_owned(), why });
        }
        self.view.lock().unwrap_or_else(PoisonError::into_inner).change(self.pid, entries)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, message: Message) -> Result<(), Error> {
        let mut control = self.control();
        if control.ended.is_some() {
            return Err(Error::Ended);
        }
        tell(control.socket.as_fd(), message, &[]).map_err(|_| Error::Ended)?;
        loop {
            match hear(control.socket.as_fd(), RecvFlags::empty()) {
                Ok(Some((Message::Done(0), _))) => return Ok(()),
                // Nobody but init is left, so the program has ended.
                Ok(Some((Message::Done(_), _)) | None) | Err(_) => return Err(Error::Ended),
                Ok(Some((Message::Ended { status, limit }, _))) => control.ended = Some((status, limit)),
                Ok(Some(_)) => {}
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = sys::wait_for(self.process.as_fd(), true);
    }
}
