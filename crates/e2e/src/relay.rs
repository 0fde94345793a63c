//! What stands between a client and a service, and hands on what they say to each other.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Whoever connected.
    Client,
    /// Whom it is connected to.
    Service,
}

/// Listens, and has `carry` hand on each direction of each connection: who speaks, from where, and to where. When it is over for one, it is for both ends.
pub fn relay<C>(service: SocketAddr, carry: C) -> Outcome<SocketAddr>
where
    C: Fn(Says, &TcpStream, &TcpStream) -> io::Result<()> + Clone + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A broken connection is the business of its two ends, which see it end.
            let _ = join(client, service, &carry);
        }
    });
    Ok(address)
}

/// One that hands everything on so much later, in each direction.
pub fn slow(service: SocketAddr, late: Duration) -> Outcome<SocketAddr> {
    relay(service, move |_, mut from, mut to| {
        let (pieces, came) = mpsc::channel::<(Instant, Vec<u8>)>();
        thread::scope(|scope| {
            scope.spawn(move || {
                for (at, piece) in came {
                    thread::sleep((at + late).saturating_duration_since(Instant::now()));
                    if to.write_all(&piece).is_err() {
                        break;
                    }
                }
            });
            let mut bytes = vec![0; 64 << 10];
            while let read @ 1.. = from.read(&mut bytes)? {
                if pieces.send((Instant::now(), bytes[..read].to_vec())).is_err() {
                    break;
                }
            }
            drop(pieces);
            Ok(())
        })
    })
}

fn join<C>(client: TcpStream, service: SocketAddr, carry: &C) -> io::Result<()>
where
    C: Fn(Says, &TcpStream, &TcpStream) -> io::Result<()> + Clone + Send + 'static,
{
    let service = TcpStream::connect(service)?;
    for end in [&client, &service] {
        end.set_nodelay(true)?;
    }
    let there = (Says::Client, client.try_clone()?, service.try_clone()?);
    for (who, from, to) in [there, (Says::Service, service, client)] {
        let carry = carry.clone();
        thread::spawn(move || {
            let _ = carry(who, &from, &to);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
    }
    Ok(())
}
