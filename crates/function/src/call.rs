//! One call: input handed over, output and log taken in, limits held, and all of it gone at the end.
//!
//! The end of the input is told to the program only when all of the input came: if it broke off or is too large, the program is killed, and never takes a part for the whole.
//! (What it did with the part it had read by then, it did.)

use crate::id::Id;
use crate::instance::Instance;
use crate::manifest::Limits;
use holdfast_base::ErrorKind;
use holdfast_sandbox::{Limit, Outcome, Status};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::watch;

/// Bytes that are moved at a time.
const CHUNK_BYTES: usize = 16 << 10;
/// Most of what is left in a pipe when the program has ended: the largest that an ordinary account can make one, of which one read takes a chunk.
const LEFT_CHUNKS_MAX: usize = (1 << 20) / CHUNK_BYTES;

/// What came of a call.
#[derive(Debug)]
pub struct Call {
    /// Its id, with the time it was asked for.
    pub id: Id,
    /// How it ended.
    pub end: End,
    /// Whether it was started for this call, rather than ahead of it.
    pub cold: bool,
    /// Microseconds until it had its turn.
    pub waited_us: u64,
    /// Microseconds from then until all of it had ended.
    pub ran_us: u64,
    /// Bytes of input that it was given.
    pub input_bytes: u64,
    /// What it wrote to standard output.
    pub output: Vec<u8>,
    /// What it wrote to standard error.
    pub log: Vec<u8>,
    /// Whether more was written than is kept.
    pub log_cut: bool,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The program ended with 0.
    Done,
    /// It ended with another code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It reached a limit, and was ended by it.
    Reached(Reached),
    /// There was more input than the function takes.
    InputTooLarge(u64),
    /// The input broke off.
    InputBroken(String),
    /// Whoever held it stopped.
    Stopped,
    /// It could not be started.
    NotStarted(ErrorKind, String),
}

/// Limits that end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Seconds by the clock.
    Seconds(u64),
    /// Processor time.
    Cpu,
    /// Memory of all its processes together.
    Memory,
    /// The size of a file it wrote.
    FileSize,
    /// Bytes of output.
    Output(u64),
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => out.write_str("done"),
            Self::Exit(code) => write!(out, "exit code {code}"),
            Self::Signal(signal) => write!(out, "signal {signal}"),
            Self::Reached(Reached::Seconds(most)) => write!(out, "it took longer than {most} s"),
            Self::Reached(Reached::Cpu) => out.write_str("it reached its limit of processor time"),
            Self::Reached(Reached::Memory) => out.write_str("it reached its limit of memory"),
            Self::Reached(Reached::FileSize) => out.write_str("it reached its limit for the size of a file"),
            Self::Reached(Reached::Output(most)) => write!(out, "its output is larger than {most} bytes"),
            Self::InputTooLarge(most) => write!(out, "the input is larger than {most} bytes"),
            Self::InputBroken(why) => write!(out, "the input broke off: {why}"),
            Self::Stopped => out.write_str("it was stopped with the server"),
            Self::NotStarted(_, why) => write!(out, "it could not be started: {why}"),
        }
    }
}

impl End {
    /// The program's exit code, if it ended by itself.
    pub fn exit(&self) -> Option<i32> {
        match self {
            Self::Done => Some(0),
            Self::Exit(code) => Some(*code),
            _ => None,
        }
    }

    fn of(outcome: Outcome) -> Self {
        match (outcome.limit, outcome.status) {
            (Some(Limit::Cpu), _) => Self::Reached(Reached::Cpu),
            (Some(Limit::Memory), _) => Self::Reached(Reached::Memory),
            (Some(Limit::FileSize), _) => Self::Reached(Reached::FileSize),
            (_, Status::Exited(0)) => Self::Done,
            (_, Status::Exited(code)) => Self::Exit(code),
            (_, Status::Signalled(signal)) => Self::Signal(signal),
        }
    }
}

/// A call that has its turn.
pub(crate) struct Turn<'a> {
    pub(crate) id: Id,
    pub(crate) limits: &'a Limits,
    pub(crate) began: Instant,
    pub(crate) waited: Duration,
    pub(crate) cold: bool,
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Turn<'_> {
    /// What is told of a call that never ran.
    pub(crate) fn not_started(&self, why: &holdfast_base::Error) -> Call {
        self.told(End::NotStarted(why.kind(), why.to_string()), 0, Taken::default(), Taken::default())
    }

    fn told(&self, end: End, input_bytes: u64, output: Taken, log: Taken) -> Call {
        Call {
            id: self.id,
            end,
            cold: self.cold,
            waited_us: micros(self.waited),
            ran_us: micros(self.began.elapsed()),
            input_bytes,
            output: output.bytes,
            log: log.bytes,
            log_cut: log.over,
        }
    }

    /// Hands the input over and stays until the end. `stop` ends it early; `held` is kept while a process of it is there.
    pub(crate) async fn run(
        self,
        mut instance: Instance,
        input: &mut (dyn AsyncRead + Send + Unpin),
        stop: &mut watch::Receiver<bool>,
        held: impl Send + 'static,
    ) -> Call {
        let limits = self.limits;
        let mut to = instance.input.take();
        let mut given = 0;
        let mut output = Taken::new(limits.output);
        let mut log = Taken::new(limits.log);
        let early = tokio::select! {
            biased;
            () = instance.ended() => None,
            () = output.until_over(&instance.output) => Some(End::Reached(Reached::Output(limits.output))),
            () = log.all(&instance.log) => None,
            end = feed(input, &mut to, limits.input, &mut given) => Some(end),
            () = tokio::time::sleep(Duration::from_secs(limits.seconds)) => Some(End::Reached(Reached::Seconds(limits.seconds))),
            _ = stop.wait_for(|stop| *stop) => Some(End::Stopped),
        };
        if early.is_none() {
            output.rest(&instance.output);
        }
        log.rest(&instance.log);
        let end = match (early, instance.outcome()) {
            (Some(end), _) => end,
            (None, _) if output.over => End::Reached(Reached::Output(limits.output)),
            (None, Ok(Some(outcome))) => End::of(outcome),
            (None, Ok(None)) => End::NotStarted(ErrorKind::Internal, "it has not ended".to_owned()),
            (None, Err(error)) => End::NotStarted(error.kind(), error.to_string()),
        };
        if matches!(end, End::Reached(_)) {
            // The part that fits is nobody's result.
            output.bytes.clear();
        }
        // Not before it is dead: it would take this for the end of its input.
        let all_gone = instance.end(held).await;
        drop(to);
        if !all_gone {
            log.bytes.extend_from_slice(b"\nholdfast: a process of it does not end\n");
        }
        self.told(end, given, output, log)
    }
}

/// Comes only if something is wrong with the input.
async fn feed(input: &mut (dyn AsyncRead + Send + Unpin), to: &mut Option<Sender>, most: u64, given: &mut u64) -> End {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Some(pipe) = to {
        match input.read(&mut chunk).await {
            Ok(0) => *to = None,
            Ok(bytes) if *given + bytes as u64 > most => return End::InputTooLarge(most),
            Ok(bytes) => match pipe.write_all(&chunk[..bytes]).await {
                Ok(()) => *given += bytes as u64,
                // It has read enough.
                Err(_) => *to = None,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return End::InputBroken(error.to_string()),
        }
    }
    std::future::pending().await
}

/// Reads what is in a pipe now, as the kernel knows it: the runtime reads nothing from a pipe of which it was not told yet that there is something in it, and
/// a program that was quick has ended before that.
pub(crate) fn read_now(from: &Receiver, chunk: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(from, chunk)?)
}

/// What came from a pipe.
#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    most: usize,
    /// Whether there was more.
    over: bool,
}

impl Taken {
    fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), ..Self::default() }
    }

    fn take(&mut self, chunk: &[u8]) {
        let left = self.most - self.bytes.len();
        self.over |= chunk.len() > left;
        self.bytes.extend_from_slice(&chunk[..chunk.len().min(left)]);
    }

    /// Comes when there is more than may be.
    async fn until_over(&mut self, from: &Receiver) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while !self.over {
            if !self.some(from, &mut chunk).await {
                return std::future::pending().await;
            }
        }
    }

    /// Never comes.
    async fn all(&mut self, from: &Receiver) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.some(from, &mut chunk).await {}
        std::future::pending::<()>().await;
    }

    /// Takes what is there, as soon as something is. False at the end.
    async fn some(&mut self, from: &Receiver, chunk: &mut [u8]) -> bool {
        if from.readable().await.is_err() {
            return false;
        }
        match from.try_read(chunk) {
            Ok(0) => false,
            Ok(bytes) => {
                self.take(&chunk[..bytes]);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Takes what is left when the program has ended. Who else has the pipe, if it was passed on, is not waited for.
    fn rest(&mut self, from: &Receiver) {
        let mut chunk = vec![0; CHUNK_BYTES];
        for _ in 0..LEFT_CHUNKS_MAX {
            match read_now(from, &mut chunk) {
                Ok(bytes) if bytes > 0 => self.take(&chunk[..bytes]),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_before_the_runtime_heard_of_it_is_taken() {
        // Nothing is heard of while this one's only thread is busy.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (from, to) = rustix::pipe::pipe().expect("a pipe");
            rustix::io::write(&to, b"new\n").expect("written");
            let from = Receiver::from_owned_fd(from).expect("registered");
            let mut output = Taken::new(100);
            output.rest(&from);
            assert_eq!(output.bytes, b"new\n");
            // And nothing more is waited for.
            output.rest(&from);
            assert_eq!((output.bytes.len(), output.over), (4, false));
        });
    }
}
