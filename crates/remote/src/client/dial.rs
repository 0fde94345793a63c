//! Making a connection, by either transport, and what is seen of its network.
//!
//! A connection over TCP from an address that this machine no longer has carries nothing more, and nobody tells: it is ended within [`PING_EVERY`], so that the next one
//! leaves from the address of now. Over QUIC a connection follows its end by itself.

use super::link::Body;
use super::lossy::Packets;
use super::{Network, Options, Plane, Target};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use holdfast_base::{Error, ErrorKind, Result};
use holdfast_plane::Statistics;
use holdfast_plane::quic::{self, EndpointError, Settings};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use socket2::{SockRef, Socket, TcpKeepalive};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

/// Longest that a connection takes to be made: one to a machine that is off must not use up an operation's time.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The same over QUIC, which is for networks where handshakes take long: at 64 % loss, 6 s at the median.
const CONNECT_TIME_QUIC: Duration = Duration::from_mins(1);
/// Times after which another connection is begun beside one that is being made. While a network is away what is sent again is sent ever more seldom, after a minute half a minute apart, in which
/// it may be long back.
const ANEW: [Duration; 3] = [Duration::from_secs(5), Duration::from_secs(10), Duration::from_secs(20)];
/// Time after which a silent connection is probed by the kernel, which ends it when nothing was acknowledged for [`Options::patience`].
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Longest that a ping takes, which waits on slow networks behind 400 KB: where the kernel at the other end answers and the server does not.
const PING_TIME: Duration = Duration::from_mins(1);
/// Time between pings, and between looks whether the address is still this machine's.
const PING_EVERY: Duration = Duration::from_secs(3);
/// Bytes of one answer that may be under way, and of all: sixteen blocks ahead.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
/// See [`STREAM_WINDOW_BYTES`].
const WINDOW_BYTES: u32 = 32 << 20;
/// The same windows over QUIC: 100 Mbit/s for 2.5 s, or with two thirds of it lost.
const PLANE_STREAM_WINDOW_BYTES: u32 = 32 << 20;
/// See [`PLANE_STREAM_WINDOW_BYTES`].
const PLANE_WINDOW_BYTES: u32 = 48 << 20;
/// Bytes of a request that are taken ahead of what the kernel or the plane takes: what was taken counts as moved.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Bytes that the kernel has and has not sent.
const UNSENT_BYTES: u32 = 256 << 10;

/// How a server is connected to.
pub(super) struct Dial {
    pub(super) target: Target,
    tls: Option<TlsConnector>,
    /// Over QUIC, and whom to believe there.
    quic: Option<rustls::ClientConfig>,
    /// See [`Options::patience`].
    patience: Duration,
    /// What the last connection sees.
    seen: Mutex<Option<Watched>>,
}

/// A connection.
pub(super) struct Made {
    pub(super) sender: SendRequest<Body>,
    /// Set before the sender says that it is closed, if nothing comes by the connection any more: no answer that is still awaited either.
    pub(super) died: Arc<AtomicBool>,
}

/// Where a connection's network is looked at.
enum Watched {
    /// How long it took to connect, and the connection for as long as there is one.
    Tcp(Duration, Weak<Origin>),
    /// What the plane says, which is something each second, and when it did.
    Quic(watch::Receiver<Statistics>, Instant),
}

impl Dial {
    pub(super) fn new(options: &Options, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Self> {
        let quic = tls.as_deref().filter(|_| options.plane == Plane::Quic).cloned();
        if options.plane == Plane::Quic && quic.is_none() {
            return Err(Error::invalid("the QUIC plane is encrypted: the address begins with https://"));
        }
        let (target, tls) = (options.target.clone(), tls.map(TlsConnector::from));
        Ok(Self { target, tls, quic, patience: options.patience, seen: Mutex::default() })
    }

    /// A connection, unless that takes too long.
    pub(super) async fn connect(&self) -> Result<Made> {
        let time = if self.quic.is_some() { CONNECT_TIME_QUIC } else { CONNECT_TIME.max(self.patience) };
        let made = timeout(time, first_of(|| self.connect_by())).await;
        let (made, watched) =
            made.unwrap_or_else(|_| Err(Error::unavailable(format!("{} does not answer", self.target))))?;
        *self.seen.lock() = Some(watched);
        Ok(made)
    }

    async fn connect_by(&self) -> Result<(Made, Watched)> {
        let away = |error: io::Error| Error::unavailable(format!("{} cannot be reached: {error}", self.target));
        if let Some(tls) = &self.quic {
            let mut found =
                tokio::net::lookup_host((self.target.host.as_str(), self.target.port)).await.map_err(away)?;
            let to = found.next().ok_or_else(|| Error::unavailable(format!("{} has no address", self.target)))?;
            return self.connect_quic(to, tls).await;
        }
        let began = Instant::now();
        let socket = TcpStream::connect((self.target.host.as_str(), self.target.port)).await.map_err(away)?;
        let from = Arc::new(Origin::of(&socket).map_err(away)?);
        let watched = Watched::Tcp(began.elapsed(), Arc::downgrade(&from));
        socket.set_nodelay(true).map_err(away)?;
        // What is asked for must not wait behind megabytes of content in the kernel.
        let options = SockRef::from(&socket);
        options.set_tcp_notsent_lowat(UNSENT_BYTES).map_err(away)?;
        // Who is gone acknowledges nothing; on a slow network all is acknowledged that arrives, though answers wait behind what was sent before.
        options.set_tcp_user_timeout(Some(self.patience)).map_err(away)?;
        let probes = TcpKeepalive::new().with_time(PROBE_EVERY).with_interval(PROBE_EVERY);
        options.set_tcp_keepalive(&probes).map_err(away)?;
        metrics::counter!("holdfast_remote_connections_total").increment(1);
        let Some(tls) = &self.tls else { return Ok((self.speak(socket, Some(from)).await?, watched)) };
        let secured = tls.connect(self.target.server_name()?, socket).await.map_err(|error| {
            let is_ours = error
                .get_ref()
                .is_some_and(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))));
            if is_ours {
                let why = format!("{}: its certificate is not trusted ({error}); --ca names one that is", self.target);
                return Error::new(ErrorKind::Forbidden, why);
            }
            Error::unavailable(format!("{}: no TLS: {error}", self.target))
        })?;
        if secured.get_ref().1.alpn_protocol() != Some(b"h2") {
            let message = format!("{} does not speak HTTP/2, which a mount needs", self.target);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok((self.speak(secured, Some(from)).await?, watched))
    }

    async fn connect_quic(&self, to: SocketAddr, tls: &rustls::ClientConfig) -> Result<(Made, Watched)> {
        let anywhere: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let failed = |error: EndpointError| {
            let why = error.to_string();
            let kind = if why.contains("certificate") { ErrorKind::Forbidden } else { ErrorKind::Unavailable };
            Error::new(kind, format!("{}: {why}", self.target))
        };
        let from = quic::endpoint((anywhere, 0).into(), None).map_err(failed)?;
        metrics::counter!("holdfast_remote_connections_total").increment(1);
        let plane = quic::connect(&from, to, &self.target.host, tls, Settings::default()).await.map_err(failed)?;
        let watched = Watched::Quic(plane.watch(), Instant::now());
        Ok((self.speak(plane.into_stream(), None).await?, watched))
    }

    /// HTTP/2 over what was connected, from this address of the machine if it is bound to one.
    async fn speak<S>(&self, socket: S, from: Option<Arc<Origin>>) -> Result<Made>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut http2 = Builder::new(TokioExecutor::new());
        http2.timer(TokioTimer::new());
        if self.quic.is_some() {
            // A ping would wait behind all that was sent; the plane itself finds out who is gone.
            http2
                .max_send_buf_size(SEND_BUFFER_BYTES)
                .initial_stream_window_size(PLANE_STREAM_WINDOW_BYTES)
                .initial_connection_window_size(PLANE_WINDOW_BYTES);
        } else {
            http2
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_TIME)
                .keep_alive_while_idle(true)
                .max_send_buf_size(SEND_BUFFER_BYTES)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES);
        }
        let made = http2.handshake(TokioIo::new(socket)).await;
        let (sender, connection) = made.map_err(|error| {
            Error::unavailable(format!("{}: it does not speak HTTP/2", self.target)).with_source(error)
        })?;
        let died = Arc::new(AtomicBool::new(false));
        let made = Made { sender, died: died.clone() };
        tokio::spawn(async move {
            // Its end is what the sender sees as closed, and it is dropped last.
            let mut connection = pin!(connection);
            let ended = tokio::select! {
                ended = &mut connection => ended,
                from = gone(from.as_deref()) => {
                    tracing::info!(from = %from.address, "a connection is given up with the address it came from");
                    died.store(true, Ordering::Release);
                    from.end();
                    connection.await
                }
            };
            if let Err(error) = ended {
                died.store(true, Ordering::Release);
                tracing::debug!(%error, "the connection ended");
            }
        });
        Ok(made)
    }

    /// How the network is, as far as it is known.
    pub(super) fn network(&self) -> Option<Network> {
        Some(match self.seen.lock().as_ref()? {
            Watched::Tcp(rtt, _) => Network { plane: Plane::Tcp, rtt: *rtt, lost: None, connections: 1 },
            Watched::Quic(seen, _) => {
                let seen = *seen.borrow();
                let rtt = Duration::try_from_secs_f64(seen.rtt_us / 1e6).unwrap_or_default();
                Network { plane: Plane::Quic, rtt, lost: Some(seen.loss.max(seen.loss_in)), connections: 1 }
            }
        })
    }

    /// Bytes that the kernel has of the connection over TCP, and whose arrival the other end has not told. The plane says itself how far it takes them ahead.
    pub(super) fn queued(&self) -> u64 {
        self.origin().map_or(0, |origin| origin.queued())
    }

    /// The round trip of the connection over TCP, smoothed by the kernel over the last ones.
    pub(super) fn smoothed_rtt(&self) -> Option<Duration> {
        let info = self.origin()?.info()?;
        Some(Duration::from_micros(info.tcpi_rtt.into()))
    }

    /// What the kernel counts of the connection over TCP. It begins anew with each connection.
    pub(super) fn packets(&self) -> Packets {
        let info = self.origin().and_then(|origin| origin.info());
        info.map_or_else(Packets::default, |info| Packets {
            sent: info.tcpi_data_segs_out.into(),
            again: info.tcpi_total_retrans.into(),
            came: info.tcpi_data_segs_in.into(),
            out_of_order: info.tcpi_rcv_ooopack.into(),
        })
    }

    /// Bytes of the connection that the other end has, as far as it told. They begin anew with each connection.
    pub(super) fn carried(&self) -> u64 {
        if let Some(Watched::Quic(seen, _)) = self.seen.lock().as_ref() {
            return seen.borrow().done_bytes;
        }
        self.origin().map_or(0, |origin| origin.carried())
    }

    /// Whether the other end has not all that the connection was given, as far as it told.
    pub(super) fn carries(&self) -> bool {
        if let Some(Watched::Quic(seen, _)) = self.seen.lock().as_ref() {
            return !seen.borrow().idle;
        }
        self.queued() > 0
    }

    /// The connection over TCP, while there is one.
    fn origin(&self) -> Option<Arc<Origin>> {
        match self.seen.lock().as_ref()? {
            Watched::Tcp(_, origin) => origin.upgrade(),
            Watched::Quic(..) => None,
        }
    }

    /// For how long the plane has heard nothing of the other end, to the grain of these questions; TCP does not tell.
    pub(super) fn silence(&self) -> Option<Duration> {
        match self.seen.lock().as_mut()? {
            Watched::Tcp(..) => None,
            Watched::Quic(seen, heard) => {
                if seen.has_changed().is_ok_and(|has| has) {
                    seen.mark_unchanged();
                    *heard = Instant::now();
                }
                Some(heard.elapsed())
            }
        }
    }
}

/// What the first of some attempts comes to, another one of which is begun each time that those before have taken so long ([`ANEW`]).
async fn first_of<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    let mut others = ANEW.into_iter();
    let mut under_way = FuturesUnordered::new();
    loop {
        under_way.push(attempt());
        tokio::select! {
            Some(made) = under_way.next() => return made,
            () = sleep(others.next().unwrap_or(Duration::MAX)) => {}
        }
    }
}

/// Where a connection over TCP comes from.
struct Origin {
    address: IpAddr,
    /// The connection's, by another descriptor.
    socket: Socket,
}

impl Origin {
    fn of(socket: &TcpStream) -> io::Result<Self> {
        Ok(Self { address: socket.local_addr()?.ip(), socket: SockRef::from(socket).try_clone()? })
    }

    /// See [`Dial::queued`].
    #[expect(unsafe_code, reason = "a foreign function; see the safety comment")]
    fn queued(&self) -> u64 {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the descriptor is open for as long as `self.socket` is, and TIOCOUTQ (tcp(7), SIOCOUTQ) writes one `int` to where it is told to.
        let answered = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if answered == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// See [`Dial::carried`].
    fn carried(&self) -> u64 {
        self.info().map_or(0, |info| info.tcpi_bytes_acked)
    }

    /// What the kernel tells of the connection; what it is too old to tell is zero.
    #[expect(unsafe_code, reason = "a foreign function; see the safety comments")]
    fn info(&self) -> Option<libc::tcp_info> {
        // SAFETY: it is made of numbers, each of which may be zero.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut bytes = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).unwrap_or(0);
        // SAFETY: the descriptor is open for as long as `self.socket` is, and TCP_INFO (tcp(7)) writes at most `bytes` bytes to where `info` is.
        let answered = unsafe {
            let to = (&raw mut info).cast();
            libc::getsockopt(self.socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut bytes)
        };
        (answered == 0).then_some(info)
    }

    /// Ends the connection: who waits for an answer by it is told so. Nothing but that ends requests under way, not even when the connection's task is dropped.
    fn end(&self) {
        // It may have ended by itself.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Waits until the address is no longer this machine's; for ever without one.
async fn gone(from: Option<&Origin>) -> &Origin {
    let Some(from) = from else { return std::future::pending().await };
    loop {
        sleep(PING_EVERY).await;
        let bound = UdpSocket::bind((from.address, 0));
        if bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable) {
            return from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_from_an_address_that_nobody_has_is_ended_and_one_from_this_machine_is_not() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
        let (mut theirs, _) = listener.accept().expect("somebody connects");
        let mut origin = Origin::of(&ours).expect("it is connected");
        for stays in [Some(&origin), None] {
            assert!(timeout(Duration::from_mins(1), gone(stays)).await.is_err());
        }
        // One for documentation (RFC 5737).
        origin.address = IpAddr::from([192, 0, 2, 77]);
        gone(Some(&origin)).await.end();
        assert_eq!(io::Read::read(&mut theirs, &mut [0]).expect("it ends"), 0);
        ours.readable().await.expect("it is told so");
        assert_eq!(ours.try_read(&mut [0]).expect("it ends"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_that_is_back_is_found_soon_however_long_it_was_away() {
        // As the kernel repeats what begins a connection.
        let repeats = [0, 1, 3, 7, 15, 31];
        for back_ms in (0..50_000_u64).step_by(250) {
            let began = Instant::now();
            let attempt = || async move {
                let now = Instant::now();
                for after in repeats {
                    tokio::time::sleep_until(now + Duration::from_secs(after)).await;
                    if began.elapsed() >= Duration::from_millis(back_ms) {
                        return Ok(());
                    }
                }
                std::future::pending().await
            };
            first_of(attempt).await.expect("it is back");
            let late_ms = began.elapsed().as_millis() - u128::from(back_ms);
            assert!(late_ms <= 8_000, "{late_ms} ms after it was back, {back_ms} ms after the beginning");
        }
        let refused = || async { Err::<(), _>(Error::unavailable("refused")) };
        assert!(first_of(refused).await.is_err(), "that is told at once");
    }

    /// Who takes nothing has less than was written; the rest is queued until it takes it.
    #[tokio::test]
    async fn what_was_written_is_queued_until_the_other_end_has_it() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let ours = TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
        let (mut theirs, _) = listener.accept().expect("somebody connects");
        let origin = Origin::of(&ours).expect("it is connected");
        assert_eq!((origin.queued(), origin.carried() <= 1), (0, true));
        let (piece, mut written) = (vec![1; 1 << 16], 0);
        while let Ok(bytes) = ours.try_write(&piece) {
            written += bytes as u64;
        }
        let queued = origin.queued();
        assert!(queued > 0 && queued < written, "{queued} of {written}");
        io::copy(&mut io::Read::take(&mut theirs, written), &mut io::sink()).expect("it comes");
        while origin.queued() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        // Whoever connects sends a byte that is none.
        assert_eq!(origin.carried(), written + 1);
    }
}
