//! What is not about files: `environment`, `directory`, `network`, `unix-sockets`, `limits`, `devices`.

use super::reader::{Reader, Value};
use crate::mistake::unknown;
use crate::{Device, Environment, Limits, Network, Settings, UnixSockets};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use toml::de::{DeTable, DeValue};

/// The most ports and variables that are named: more is a mistake of a program that writes policies.
const NAMED_MAX: usize = 1000;

/// Suffixes of sizes: powers of 1,024.
const SIZES: [(&str, u32); 8] =
    [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
/// Thousandths of processors that a limit may be: below, the kernel has no share, and nobody has as many.
const PROCESSORS: RangeInclusive<f64> = 10.0..=10_000_000.0;
/// Suffixes of times in seconds.
const TIMES: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

/// Reads them all.
pub(super) fn read(reader: &mut Reader<'_>, root: &DeTable<'_>) -> Settings {
    Settings {
        environment: reader.environment(root),
        directory: root.get("directory").and_then(|value| reader.path_of(value, "`directory`")),
        network: root.get("network").and_then(|value| reader.network(value)).unwrap_or_default(),
        unix_sockets: match reader.word(root, "unix-sockets", &["none", "all"]) {
            Some("none") => UnixSockets::None,
            _ => UnixSockets::All,
        },
        limits: reader.table(root, "limits").map(|table| reader.limits(table)).unwrap_or_default(),
        devices: root.get("devices").map(|value| reader.devices(value)).unwrap_or_default(),
    }
}

impl Reader<'_> {
    fn environment(&mut self, root: &DeTable<'_>) -> Environment {
        let mut environment = Environment::default();
        let Some(table) = self.table(root, "environment") else { return environment };
        self.known(table, "key of the environment", &["keep", "set"]);
        for value in table.get("keep").map(Self::several).unwrap_or_default() {
            let name = self.text(value, "a variable that is kept").map(str::to_owned);
            environment.keep.extend(name.filter(|name| self.variable(name, value)));
        }
        for (name, value) in self.table(table, "set").into_iter().flatten() {
            let text = self.text(value, "a variable's value").map(str::to_owned);
            if text.as_ref().is_some_and(|text| text.contains('\0')) {
                self.wrong(value.span(), "no variable has a NUL in it");
            }
            if let (Some(text), true) = (text, self.variable(name.get_ref(), value)) {
                environment.set.insert(name.get_ref().to_string(), text);
            }
        }
        if environment.keep.len() + environment.set.len() > NAMED_MAX {
            self.wrong(0..0, format!("at most {NAMED_MAX} variables are named"));
        }
        environment
    }

    fn variable(&mut self, name: &str, value: &Value<'_>) -> bool {
        let letters = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let good =
            name.bytes().all(|byte| letters(&byte)) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if !good {
            self.wrong(
                value.span(),
                format!("{name:?} is no name of a variable: letters, digits and `_`, no digit first"),
            );
        }
        good
    }

    fn network(&mut self, value: &Value<'_>) -> Option<Network> {
        match value.get_ref() {
            DeValue::String(word) => match word.as_ref() {
                "none" => Some(Network::None),
                "all" => Some(Network::All),
                word => {
                    self.wrong(value.span(), unknown("word for `network`", word, ["none", "all"]));
                    None
                }
            },
            DeValue::Table(table) => {
                self.known(table, "key of the network", &["tcp-connect", "tcp-bind"]);
                let (connect, bind) = (self.ports(table, "tcp-connect"), self.ports(table, "tcp-bind"));
                Some(Network::Ports { connect, bind })
            }
            _ => {
                self.kind(value, "`network` is \"none\", \"all\" or a table with `tcp-connect` and `tcp-bind`");
                None
            }
        }
    }

    fn ports(&mut self, table: &DeTable<'_>, key: &str) -> BTreeSet<u16> {
        let values = table.get(key).map(Self::several).unwrap_or_default();
        if values.len() > NAMED_MAX {
            self.wrong(values[0].span(), format!("at most {NAMED_MAX} ports are named"));
        }
        let ports = values.into_iter().take(NAMED_MAX);
        ports.filter_map(|value| self.integer(value, "a port", 1..65536)?.try_into().ok()).collect()
    }

    fn devices(&mut self, value: &Value<'_>) -> BTreeSet<Device> {
        let mut devices = BTreeSet::new();
        for value in Self::several(value) {
            let Some(name) = self.text(value, "a device") else { continue };
            match Device::ALL.into_iter().find(|device| device.name() == name) {
                Some(device) => drop(devices.insert(device)),
                None => self.wrong(value.span(), unknown("device", name, Device::ALL.map(Device::name))),
            }
        }
        devices
    }

    fn limits(&mut self, table: &DeTable<'_>) -> Limits {
        self.known(table, "limit", &Limits::default().named().map(|(name, _)| name));
        let mut limit = |key, read: fn(&mut Self, &Value<'_>, &str) -> Option<u64>| {
            let value = table.get(key)?;
            let number = read(self, value, key)?;
            if number == 0 {
                self.wrong(value.span(), format!("`{key}` of 0 lets nothing run; leave it out for no limit"));
            }
            Some(number)
        };
        Limits {
            memory: limit("memory", Self::size),
            cpu_seconds: limit("cpu-seconds", Self::time),
            cpus: limit("cpus", Self::processors),
            processes: limit("processes", Self::count),
            seconds: limit("seconds", Self::time),
            process_memory: limit("process-memory", Self::size),
            process_cpu_seconds: limit("process-cpu-seconds", Self::time),
            open_files: limit("open-files", Self::count),
            file_size: limit("file-size", Self::size),
        }
    }

    fn count(&mut self, value: &Value<'_>, what: &str) -> Option<u64> {
        self.integer(value, &format!("`{what}`"), 0..i128::from(i64::MAX) + 1)?.try_into().ok()
    }

    /// Thousandths of a processor, written as a number of processors.
    fn processors(&mut self, value: &Value<'_>, what: &str) -> Option<u64> {
        let number = match value.get_ref() {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str().parse::<f64>().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let thousandths = number.map(|number| number * 1000.0).filter(|number| PROCESSORS.contains(number));
        if thousandths.is_none() {
            self.wrong(value.span(), format!("`{what}` is a number of processors from 0.01 to 10000, such as 1.5"));
        }
        // Within the bounds, and a part of a thousandth more or less is nobody's matter.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds above")]
        thousandths.map(|number| number.round() as u64)
    }

    /// Bytes, as a number or as text with a suffix.
    fn size(&mut self, value: &Value<'_>, what: &str) -> Option<u64> {
        let Some(text) = value.get_ref().as_str() else { return self.count(value, what) };
        let scaled = SIZES.iter().find_map(|(suffix, bits)| {
            let number: u64 = text.strip_suffix(suffix)?.trim_end().parse().ok()?;
            number.checked_mul(1 << bits)
        });
        self.within(
            scaled.or_else(|| text.parse().ok()),
            value,
            what,
            "a number of bytes, or text like \"512M\" (K, M, G, T are powers of 1,024)",
        )
    }

    /// Seconds, as a number or as text with a suffix.
    fn time(&mut self, value: &Value<'_>, what: &str) -> Option<u64> {
        let Some(text) = value.get_ref().as_str() else { return self.count(value, what) };
        let scaled = TIMES.iter().find_map(|(suffix, seconds)| {
            let number: u64 = text.strip_suffix(suffix)?.trim_end().parse().ok()?;
            number.checked_mul(*seconds)
        });
        self.within(scaled, value, what, "a number of seconds, or text like \"90s\", \"5m\" or \"2h\"")
    }

    fn within(&mut self, number: Option<u64>, value: &Value<'_>, what: &str, wanted: &str) -> Option<u64> {
        // What TOML can hold as a number, so that the same can be written again.
        let number = number.filter(|number| i64::try_from(*number).is_ok());
        if number.is_none() {
            self.wrong(value.span(), format!("`{what}` is {wanted}"));
        }
        number
    }
}
