//! How the network to a drive is: what progress shows, and what the history of a job keeps.

use crate::drive::{Plane, Why};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// How the network to a drive is, or was when it was looked at last.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// The transport.
    #[serde(with = "plane")]
    pub plane: Plane,
    /// The least round trip that was seen.
    #[serde(rename = "rtt_ms", with = "milliseconds")]
    pub rtt: Duration,
    /// Share of what was sent lately that did not arrive, in the worse direction; TCP does not tell.
    pub lost: Option<f64>,
    /// Connections in use.
    #[serde(default = "one")]
    pub connections: usize,
    /// Why it is this transport.
    #[serde(default)]
    pub why: Option<Why>,
    /// Whether that was found out by an earlier transfer.
    #[serde(default)]
    pub remembered: bool,
}

const fn one() -> usize {
    1
}

impl Network {
    /// The transport's name.
    pub const fn plane_name(&self) -> &'static str {
        match self.plane {
            Plane::Tcp => "tcp",
            Plane::Quic => "quic",
        }
    }
}

/// For people: `quic 102 ms, 1.2 % lost`, `tcp 40 ms, 6 connections`.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.0} ms", self.plane_name(), self.rtt.as_secs_f64() * 1e3)?;
        if let Some(lost) = self.lost.filter(|lost| *lost >= 0.001) {
            write!(f, ", {:.1} % lost", lost * 100.0)?;
        }
        if self.connections > 1 {
            write!(f, ", {} connections", self.connections)?;
        }
        match (self.why, self.plane) {
            (Some(Why::Blocked), Plane::Tcp) => f.write_str(" (quic does not get through)"),
            (Some(Why::Faster), Plane::Tcp) => f.write_str(" (faster than quic here)"),
            (Some(Why::Faster), Plane::Quic) => f.write_str(" (faster than tcp here)"),
            _ => Ok(()),
        }
    }
}

mod plane {
    use super::{Deserialize, Deserializer, Plane, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    pub(super) fn serialize<S: Serializer>(plane: &Plane, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match plane {
            Plane::Tcp => "tcp",
            Plane::Quic => "quic",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Plane, D::Error> {
        match String::deserialize(from)?.as_str() {
            "tcp" => Ok(Plane::Tcp),
            "quic" => Ok(Plane::Quic),
            other => Err(serde::de::Error::custom(format!("{other} is no transport"))),
        }
    }
}

mod milliseconds {
    use super::{Deserialize, Deserializer, Duration, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64() * 1e3)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let ms = f64::deserialize(from)?;
        Duration::try_from_secs_f64(ms / 1e3).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_network_is_told_as_far_as_it_is_known_and_read_again() {
        let rtt = Duration::from_micros(101_600);
        let network =
            Network { plane: Plane::Quic, rtt, lost: Some(0.012), connections: 1, why: None, remembered: false };
        assert_eq!(network.to_string(), "quic 102 ms, 1.2 % lost");
        let tcp = Network { plane: Plane::Tcp, lost: None, connections: 6, ..network };
        assert_eq!(tcp.to_string(), "tcp 102 ms, 6 connections");
        let blocked = Network { why: Some(Why::Blocked), connections: 1, remembered: true, ..tcp };
        assert_eq!(blocked.to_string(), "tcp 102 ms (quic does not get through)");
        let told = serde_json::to_value(network).expect("is JSON");
        assert_eq!(
            told,
            json!({ "plane": "quic", "rtt_ms": 101.6, "lost": 0.012, "connections": 1, "why": null, "remembered": false })
        );
        for (network, told) in
            [(network, told), (tcp, json!({ "plane": "tcp", "rtt_ms": 101.6, "lost": null, "connections": 6 }))]
        {
            assert_eq!(serde_json::from_value::<Network>(told).expect("reads"), network);
        }
        let told = serde_json::to_value(blocked).expect("is JSON");
        assert_eq!((&told["why"], &told["remembered"]), (&json!("blocked"), &json!(true)));
        assert_eq!(serde_json::from_value::<Network>(told).expect("reads"), blocked);
        for bad in [json!({ "plane": "x", "rtt_ms": 1.0 }), json!({ "plane": "tcp", "rtt_ms": -1.0 })] {
            assert!(serde_json::from_value::<Network>(bad).is_err());
        }
    }
}
