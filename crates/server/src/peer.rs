//! Who is really asking: behind a reverse proxy the socket's peer is the proxy, and its `X-Forwarded-For` and
//! `X-Forwarded-Proto` say who came to it and how. Only proxies the operator names are believed; anybody can send headers.

use crate::conn::Peer;
use holdfast_base::{Error, Result};
use http::HeaderMap;
use std::net::IpAddr;
use std::str::FromStr;

/// A network in CIDR notation; a bare address is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: u128,
    mask: u128,
}

/// Every address as IPv6, IPv4 in its mapped form, so that one comparison serves both.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl Network {
    /// Whether `address` is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.base
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(format!("{text:?} is not a network: write for example 10.0.0.0/8, 192.0.2.7 or fd00::/8"))
        };
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let (widest, mapped) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let length = length.map_or(Ok(widest), |length| length.trim().parse::<u32>().map_err(|_| bad()))?;
        if length > widest {
            return Err(bad());
        }
        let mask = u128::MAX.checked_shl(128 - (length + mapped)).unwrap_or(0);
        Ok(Self { base: bits(address) & mask, mask })
    }
}

/// The client of a request, as far as it can be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// Whether what it sends is encrypted on its way: TLS to us, or to a trusted proxy that says so.
    pub encrypted: bool,
    /// Whether it is on this machine, with no proxy in between that we know of.
    pub local: bool,
    /// Whether headers of an untrusted peer claim that it is a proxy.
    pub unknown_proxy: bool,
}

/// Finds the client of a request. From the right of `X-Forwarded-For`, addresses of trusted proxies are skipped: the first other
/// one is the client, since everything to its left is its own claim.
pub fn client(peer: Peer, headers: &HeaderMap, trusted: &[Network]) -> Client {
    let socket = peer.address.ip().to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let forwarded = headers.contains_key("x-forwarded-for")
        || headers.contains_key("x-forwarded-proto")
        || headers.contains_key("forwarded");
    if !is_trusted(socket) {
        let local = socket.is_loopback() && !forwarded;
        return Client { address: socket, encrypted: peer.tls, local, unknown_proxy: forwarded };
    }
    let chain = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let addresses: Vec<&str> = chain.flat_map(|value| value.split(',')).map(str::trim).collect();
    let mut address = socket;
    for hop in addresses.iter().rev() {
        let Ok(hop) = hop.parse::<IpAddr>() else { break };
        address = hop.to_canonical();
        if !is_trusted(address) {
            break;
        }
    }
    let proto = headers.get_all("x-forwarded-proto").iter().next_back().and_then(|value| value.to_str().ok());
    let encrypted = match proto.and_then(|value| value.rsplit(',').next()) {
        Some(proto) => proto.trim().eq_ignore_ascii_case("https"),
        None => peer.tls && address == socket,
    };
    Client { address, encrypted, local: address.is_loopback() && !forwarded, unknown_proxy: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer { address: format!("{address}:1").parse().expect(address), tls: false }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().expect("name"), value.parse().expect("value"))).collect()
    }

    #[test]
    fn networks_hold_what_their_prefix_says() {
        let network: Network = "10.1.0.0/16".parse().expect("parses");
        assert!(network.contains("10.1.255.255".parse().expect("ip")));
        assert!(!network.contains("10.2.0.0".parse().expect("ip")));
        assert!("fd00::/8".parse::<Network>().expect("parses").contains("fd12::1".parse().expect("ip")));
        assert!("0.0.0.0/0".parse::<Network>().expect("parses").contains("192.0.2.1".parse().expect("ip")));
        assert!(!"0.0.0.0/0".parse::<Network>().expect("parses").contains("2001:db8::1".parse().expect("ip")));
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "example.org", "::/129", "10.0.0.0/x"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_stranger_s_forwarding_headers_are_not_believed() {
        let claims = headers(&[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-proto", "https")]);
        let client = client(peer("203.0.113.9"), &claims, &[]);
        assert_eq!(client.address.to_string(), "203.0.113.9");
        assert!(!client.encrypted && !client.local && client.unknown_proxy);
    }

    #[test]
    fn a_trusted_proxy_says_who_came_and_how_and_the_client_cannot_add_to_it() {
        let trusted = ["10.0.0.0/8".parse().expect("parses")];
        let said = headers(&[("x-forwarded-for", "127.0.0.1, 203.0.113.9, 10.0.0.2"), ("x-forwarded-proto", "https")]);
        let client = client(peer("10.0.0.1"), &said, &trusted);
        assert_eq!(client.address.to_string(), "203.0.113.9");
        assert!(client.encrypted && !client.local);
    }

    #[test]
    fn a_proxy_on_this_machine_that_nobody_named_does_not_make_its_clients_local() {
        let said = headers(&[("x-forwarded-for", "203.0.113.9")]);
        assert!(!client(peer("127.0.0.1"), &said, &[]).local);
        assert!(client(peer("127.0.0.1"), &HeaderMap::new(), &[]).local);
    }
}
