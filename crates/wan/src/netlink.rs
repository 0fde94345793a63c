//! The one thing of a namespace that only a message to the kernel can set: which congestion control TCP uses on a route.
//!
//! The parameter `net.ipv4.tcp_congestion_control` of a namespace takes only what the machine's administrator allows to everybody. A route's
//! metric takes any, and holds for both ends of connections over it: for those that are opened, and those that are accepted (rtnetlink(7),
//! `congctl` in ip-route(8)).

use std::io;
use std::net::Ipv4Addr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netdevice::name_to_index, recv, send, socket};

const RTM_NEWROUTE: u16 = 24;
/// Request, acknowledge, replace, create.
const FLAGS: u16 = 0x1 | 0x4 | 0x100 | 0x400;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_KERNEL: u8 = 2;
const SCOPE_LINK: u8 = 253;
const TYPE_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
/// Length, type, flags, sequence, sender.
const HEADER_BYTES: usize = 16;

/// An attribute: its length, its type, its value, and nothing up to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The message that replaces the route to the network of `address`.
fn message(address: Ipv4Addr, prefix: u8, device: u32, algorithm: &str) -> Vec<u8> {
    let network = Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - u32::from(prefix))));
    let family = u8::try_from(AddressFamily::INET.as_raw()).unwrap_or(2);
    // Family, bits of the destination and the source, type of service; table, protocol, scope, type; flags.
    let route = [family, prefix, 0, 0, TABLE_MAIN, PROTOCOL_KERNEL, SCOPE_LINK, TYPE_UNICAST, 0, 0, 0, 0];
    let metric = attribute(RTAX_CC_ALGO, &[algorithm.as_bytes(), b"\0"].concat());
    let body = [
        route.to_vec(),
        attribute(RTA_DST, &network.octets()),
        attribute(RTA_OIF, &device.to_ne_bytes()),
        attribute(RTA_PREFSRC, &address.octets()),
        attribute(RTA_METRICS, &metric),
    ]
    .concat();
    let length = u32::try_from(HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    let header = [&length.to_ne_bytes()[..], &RTM_NEWROUTE.to_ne_bytes(), &FLAGS.to_ne_bytes(), &[0; 8]].concat();
    [header, body].concat()
}

/// Has connections over the link use this congestion control, in the namespace of the calling thread.
pub(crate) fn set_congestion(device: &str, address: Ipv4Addr, prefix: u8, algorithm: &str) -> io::Result<()> {
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let device = name_to_index(&socket, device)?;
    send(&socket, &message(address, prefix, device, algorithm), SendFlags::empty())?;
    let mut answer = [0_u8; 1024];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    let code = answer[..length].get(HEADER_BYTES..HEADER_BYTES + 4).and_then(|code| code.try_into().ok());
    // Zero, or the negative of an error's number.
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel's answer is too short")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_own_length_and_the_network_of_the_address() {
        let message = message(Ipv4Addr::new(10, 97, 0, 2), 24, 5, "cubic");
        assert_eq!(
            message.len(),
            16 + 12 + 8 + 8 + 8 + 4 + 12,
            "headers, three addresses and numbers, and a name in two attributes"
        );
        assert_eq!(message[..4], u32::try_from(message.len()).expect("short").to_ne_bytes());
        assert_eq!(message[32..36], [10, 97, 0, 0]);
        assert!(message.windows(6).any(|part| part == b"cubic\0"));
    }
}
