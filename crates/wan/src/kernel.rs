//! The kernel's own emulator, and its counters.

use std::io;
use std::process::{Command, Stdio};

use crate::host::{Host, WanError};
use crate::settings::{Chance, Impairments, Loss};
use crate::sys::DEVICE;

/// The arguments of `tc qdisc add dev wan0 root netem` that mean the same.
fn arguments(impairments: &Impairments) -> Vec<String> {
    let percent = |fraction: f64| format!("{}%", fraction * 100.0);
    let micros = |duration: std::time::Duration| format!("{}us", duration.as_micros());
    let mut words = vec!["limit".to_owned(), impairments.queue.packets.to_string()];
    if !impairments.delay.is_zero() || !impairments.jitter.is_zero() {
        words.extend(["delay".to_owned(), micros(impairments.delay)]);
        if !impairments.jitter.is_zero() {
            words.extend([micros(impairments.jitter), percent(impairments.jitter_correlation)]);
        }
    }
    let mut chance = |name: &str, Chance { probability, correlation }: Chance| {
        if probability > 0.0 {
            words.extend([name.to_owned(), percent(probability)]);
            if correlation > 0.0 {
                words.push(percent(correlation));
            }
        }
    };
    match impairments.loss {
        Loss::Random(loss) => chance("loss", loss),
        Loss::Bursts { .. } => {}
    }
    chance("corrupt", impairments.corruption);
    chance("duplicate", impairments.duplication);
    chance("reorder", impairments.reordering);
    if impairments.reordering.probability > 0.0 {
        words.extend(["gap".to_owned(), impairments.gap.to_string()]);
    }
    if let Loss::Bursts { to_bad, to_good, in_bad, in_good } = impairments.loss {
        words.extend(["loss", "gemodel"].map(str::to_owned));
        words.extend([to_bad, to_good, in_bad, in_good].map(percent));
    }
    if let Some(rate) = impairments.rate {
        // tc adds the bytes of a packet's overhead itself; the device has no Ethernet header of its own.
        words.extend(["rate".to_owned(), format!("{rate}bps"), impairments.overhead_bytes.to_string()]);
    }
    words
}

/// Puts the kernel's netem on the host's end of the link.
pub(crate) fn add_netem(host: &Host, impairments: &Impairments) -> Result<(), WanError> {
    let add = || {
        let mut command = Command::new("tc");
        command.args(["qdisc", "add", "dev", DEVICE, "root", "netem"]).args(arguments(impairments));
        command.env("PATH", path_with_sbin()).stdin(Stdio::null()).output()
    };
    let output = host.run(add).and_then(|output| output);
    let why = match output {
        Ok(output) if output.status.success() => {
            return host.no_offloads().map_err(|why| WanError::Io { what: "cannot switch offloads off", why });
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            "the command tc of iproute2 is not installed".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(WanError::NoNetem(format!(
        "the kernel's netem cannot be used here: {why}; the link in user space needs none of it"
    )))
}

/// `tc` is often where only root's path leads.
fn path_with_sbin() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// A counter of `/proc/net/snmp` and `/proc/net/netstat`, in which a line of names is followed by a line of values.
pub(crate) fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split(':').next() == Some(protocol));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

/// Whether `/proc/net/tcp` has a socket in the state of listening (10, in hexadecimal) at this port.
pub(crate) fn listens(text: &str, port: u16) -> bool {
    let at = format!(":{port:04X}");
    text.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().take(4).collect();
        matches!(fields[..], [_, local, _, "0A"] if local.ends_with(&at))
    })
}

/// The column of drops on sending of `/proc/net/dev`.
pub(crate) fn dropped_on_sending(text: &str, device: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'))?;
    // Eight numbers of what was received, then bytes, packets, errors and drops of what was sent.
    line.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::{Mode, Queue};

    #[test]
    fn the_report_commands_are_what_tc_is_told() {
        let netem =
            Impairments { mode: Mode::Netem, queue: Queue { packets: 5000, bytes: None }, ..Impairments::default() };
        let words = |impairments: Impairments| arguments(&impairments).join(" ");
        assert_eq!(words(Impairments { loss: Loss::Random(Chance::percent(8.0)), ..netem }), "limit 5000 loss 8%");
        let reordering = Chance { probability: 0.16, correlation: 0.5 };
        let delay = Duration::from_millis(100);
        let rate = Some(12_500_000);
        assert_eq!(
            words(Impairments { rate, delay, reordering, ..netem }),
            "limit 5000 delay 100000us reorder 16% 50% gap 1 rate 12500000bps 14"
        );
        let jitter = Duration::from_millis(5);
        let loss = Loss::Bursts { to_bad: 0.01, to_good: 0.25, in_bad: 0.5, in_good: 0.0 };
        assert_eq!(
            words(Impairments { delay, jitter, loss, ..netem }),
            "limit 5000 delay 100000us 5000us 0% loss gemodel 1% 25% 50% 0%"
        );
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Ip: Forwarding InHdrErrors\nIp: 2 17\nUdp: InDatagrams InCsumErrors\nUdp: 5 9\nUdpLite: InDatagrams\nUdpLite: 1\n";
        assert_eq!(counter(text, "Ip", "InHdrErrors"), Some(17));
        assert_eq!(counter(text, "Udp", "InCsumErrors"), Some(9));
        assert_eq!(counter(text, "Udp", "Nothing"), None);
        assert_eq!(counter(text, "Tcp", "InErrs"), None);
    }

    #[test]
    fn listeners_are_told_from_connections() {
        let text = "  sl  local_address rem_address   st\n   0: 0100007F:1F40 00000000:0000 0A 0:0\n   1: 0100007F:1F41 0100007F:0001 01 0:0\n";
        assert!(listens(text, 8000) && !listens(text, 8001) && !listens(text, 64));
    }

    #[test]
    fn drops_on_sending_are_the_twelfth_number_of_a_device() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0\n  wan0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dropped_on_sending(text, "wan0"), Some(12));
        assert_eq!(dropped_on_sending(text, "eth0"), None);
    }
}
