//! What can go wrong with a broker itself. What goes wrong with a call is told to the program that makes it.

use holdfast_policy::Operation;

/// Why a broker does not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The listener does not answer as one.
    #[error("the listener of system calls failed: {0}")]
    Listener(#[source] std::io::Error),
    /// A file that is handed over cannot be looked at.
    #[error("a file that is handed over to the program cannot be looked at: {0}")]
    Inherited(#[source] std::io::Error),
    /// A thread could not be started, or could not give up what it must not have.
    #[error("a thread of the broker could not be prepared: {0}")]
    Thread(#[source] std::io::Error),
    /// The filter does not have the broker asked about what the judge decides.
    #[error("the sandbox was started for a judge that does not decide about {}", .0.name())]
    Scope(Operation),
    /// Rules name arguments that are not looked at.
    #[error("rules that name arguments of {} cannot be held: it is decided once, when a file is opened", .0.name())]
    Arguments(Operation),
    /// The kernel cannot be told not to interrupt a call that is served.
    #[error("a broker needs Linux 5.19 or later")]
    Kernel,
    /// An option is out of its bounds.
    #[error("{0}")]
    Option(&'static str),
}
