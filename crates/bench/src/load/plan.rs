//! What load is made: users, how long, how fast, and the requests of one loop. Both the command line and a JMeter plan
//! become a [`Plan`]; nothing behind this knows which it was.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use url::Url;

use super::Think;
use crate::duration::{DURATION_MAX, duration_label};

/// Users of one plan. Each has a connection, so this also bounds descriptors; beyond it one machine measures itself.
pub(super) const USERS_MAX: u32 = 10_000;
/// Loops of each user.
pub(super) const LOOPS_MAX: u64 = 1_000_000_000;
/// Requests per second that may be asked for: several times what one machine can send.
pub(super) const RATE_MAX: f64 = 1e6;
/// Requests in one loop, with the repetitions of inner loops.
pub(super) const STEPS_MAX: usize = 1_000;
/// Servers that the requests of one plan go to: each user can have a connection to each.
pub(super) const SERVERS_MAX: usize = 16;
/// Think times that add up before one request.
pub(super) const THINKS_MAX: usize = 16;
/// Headers of one request besides our own.
pub(super) const HEADERS_MAX: usize = 64;
/// Bytes of the headers of one request: servers in the field take 8 to 64 KiB.
pub(super) const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a request's body, which is held in memory once.
pub(super) const BODY_BYTES_MAX: usize = 64 << 20;
/// Bytes of an answer's content, unless another limit is given.
pub(super) const RESPONSE_BYTES_DEFAULT: u64 = 64 << 20;
/// Greatest limit that can be given.
pub(super) const RESPONSE_BYTES_MAX: u64 = 1 << 40;

/// The load on one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Users at the same time.
    pub users: u32,
    /// The users begin evenly spread over this time.
    pub ramp_up: Duration,
    /// Loops of each user; `None` for as many as there is time for.
    pub loops: Option<u64>,
    /// No request begins later than this after the start.
    pub duration: Option<Duration>,
    /// Requests per second that become due whether or not earlier ones are answered (open model), spread over the users as
    /// connections. `None`: each user begins its next request when its last is answered (closed model).
    pub rate: Option<f64>,
    /// Each loop begins on a new connection.
    pub fresh_loops: bool,
    /// The requests of one loop, in order.
    pub steps: Vec<Step>,
}

/// One request.
#[derive(Clone, PartialEq)]
pub struct Step {
    /// Its name in the report.
    pub name: String,
    /// Where it goes; without user and password.
    pub url: Url,
    /// How.
    pub method: Method,
    /// Headers besides `Host`, `User-Agent`, `Authorization`, `Connection` and `Content-Length`, or in their place.
    pub headers: Arc<[(String, String)]>,
    /// User and password for Basic authentication, sent with every request.
    pub credentials: Option<(String, String)>,
    /// Content; empty for none.
    pub body: Arc<[u8]>,
    /// Whether the connection is kept for the next request.
    pub keep_alive: bool,
    /// What the user thinks before, added up.
    pub think: Vec<Think>,
    /// What the answer must be.
    pub expect: Expect,
}

/// Without the password.
impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("name", &self.name)
            .field("url", &self.url.as_str())
            .field("method", &self.method)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .field("keep_alive", &self.keep_alive)
            .field("think", &self.think)
            .field("expect", &self.expect)
            .finish()
    }
}

/// Request methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Method {
    /// Without the content.
    Head,
    /// The usual one.
    Get,
    /// With a body.
    Post,
    /// With a body; may be sent again.
    Put,
}

impl Method {
    /// As it is sent.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
        }
    }

    /// Whether a second try does no harm (RFC 9110 section 9.2.2).
    pub(super) fn is_idempotent(self) -> bool {
        self != Self::Post
    }

    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// What a good answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expect {
    /// Its status is in one of these.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// It has exactly so many bytes.
    pub bytes: Option<u64>,
    /// It is exactly this.
    pub content: Option<Arc<[u8]>>,
    /// It has no more bytes than this.
    pub bytes_max: u64,
}

impl Default for Expect {
    fn default() -> Self {
        Self { statuses: vec![200..=299], bytes: None, content: None, bytes_max: RESPONSE_BYTES_DEFAULT }
    }
}

impl Plan {
    /// One user asking for one page once: what the command line and the plan reader begin with.
    pub fn once(steps: Vec<Step>) -> Self {
        Self {
            users: 1,
            ramp_up: Duration::ZERO,
            loops: Some(1),
            duration: None,
            rate: None,
            fresh_loops: false,
            steps,
        }
    }

    /// Refuses what cannot be run, and counts that are surely mistakes.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!((1..=USERS_MAX).contains(&self.users), "the number of users must be 1 to {USERS_MAX}");
        ensure!(
            self.loops.is_none_or(|loops| (1..=LOOPS_MAX).contains(&loops)),
            "the number of loops must be 1 to {LOOPS_MAX}"
        );
        ensure!(self.loops.is_some() || self.duration.is_some(), "without a number of loops there must be a duration");
        for (what, time) in [("ramp-up", Some(self.ramp_up)), ("duration", self.duration)] {
            ensure!(time.is_none_or(|time| time <= DURATION_MAX), "the {what} must be at most a day");
        }
        ensure!(self.duration != Some(Duration::ZERO), "the duration must be more than nothing");
        if let Some(rate) = self.rate {
            ensure!(
                rate.is_finite() && rate > 0.0 && rate <= RATE_MAX,
                "the rate must be above 0 and at most {RATE_MAX}"
            );
            ensure!(self.ramp_up.is_zero(), "with a rate there is no ramp-up: the rate is there from the start");
            ensure!(
                self.steps.iter().all(|step| step.think.is_empty()),
                "with a rate there is no think time: the rate says when requests begin"
            );
        }
        ensure!(!self.steps.is_empty(), "there is no request to make");
        ensure!(self.steps.len() <= STEPS_MAX, "a loop has more than {STEPS_MAX} requests");
        self.steps.iter().try_for_each(Step::check)
    }

    /// The load in words.
    pub(super) fn shape(&self) -> String {
        let mut parts = vec![format!("{} users", self.users)];
        match self.rate {
            Some(rate) => parts.push(format!("{rate} requests/s whatever the answers (open model)")),
            None => parts.push(format!("ramp-up {}", duration_label(self.ramp_up))),
        }
        parts.extend(self.loops.map(|loops| format!("{loops} loops each")));
        parts.extend(self.duration.map(|duration| format!("for {}", duration_label(duration))));
        if self.steps.len() > 1 {
            parts.push(format!("{} requests a loop", self.steps.len()));
        }
        let kept = self.steps.iter().filter(|step| step.keep_alive).count();
        parts.push(match (kept == self.steps.len(), self.fresh_loops) {
            (true, false) => "connections kept".to_owned(),
            (true, true) => "a new connection for each loop".to_owned(),
            (false, _) if kept == 0 => "a new connection for each request".to_owned(),
            (false, _) => "connections kept as the plan says".to_owned(),
        });
        let mut thinks: Vec<String> =
            self.steps.iter().flat_map(|step| step.think.iter().map(|think| think.label())).collect();
        thinks.dedup();
        thinks.truncate(3);
        parts.push(if thinks.is_empty() { "no think time".to_owned() } else { format!("think {}", thinks.join(", ")) });
        parts.join(", ")
    }
}

impl Step {
    /// A GET of `url` with all defaults.
    pub fn get(url: Url) -> Self {
        Self {
            name: url.to_string(),
            url,
            method: Method::Get,
            headers: Arc::from([]),
            credentials: None,
            body: Arc::from([]),
            keep_alive: true,
            think: Vec::new(),
            expect: Expect::default(),
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let name = &self.name;
        ensure!(
            matches!(self.url.scheme(), "http" | "https") && self.url.has_host(),
            "{name}: only http and https can be measured"
        );
        ensure!(self.headers.len() <= HEADERS_MAX, "{name}: more than {HEADERS_MAX} headers");
        let header_bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        ensure!(header_bytes <= HEADER_BYTES_MAX, "{name}: headers of more than {HEADER_BYTES_MAX} bytes");
        for (header, value) in self.headers.iter() {
            check_header(header, value)?;
        }
        ensure!(self.body.len() <= BODY_BYTES_MAX, "{name}: a body of more than {BODY_BYTES_MAX} bytes");
        ensure!(self.body.is_empty() || self.method.has_body(), "{name}: {} has no body", self.method.name());
        ensure!(self.think.len() <= THINKS_MAX, "{name}: more than {THINKS_MAX} think times");
        ensure!(
            self.think.iter().all(|think| think.greatest_part() <= DURATION_MAX),
            "{name}: a think time of more than a day"
        );
        let expect = &self.expect;
        ensure!(!expect.statuses.is_empty(), "{name}: no status is good");
        ensure!(
            (1..=RESPONSE_BYTES_MAX).contains(&expect.bytes_max),
            "{name}: the limit of an answer must be 1 to {RESPONSE_BYTES_MAX} bytes"
        );
        ensure!(
            expect.content.is_none() || self.method != Method::Head,
            "{name}: the answer to HEAD has no content to compare"
        );
        Ok(())
    }
}

/// A header that cannot break the request it stands in (RFC 9110 section 5). We frame requests ourselves.
pub(super) fn check_header(name: &str, value: &str) -> anyhow::Result<()> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    ensure!(!name.is_empty() && name.bytes().all(token), "{name:?} is no name of a header");
    ensure!(
        value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)),
        "the value of {name} has a control character"
    );
    for ours in ["Content-Length", "Transfer-Encoding", "Connection"] {
        if name.eq_ignore_ascii_case(ours) {
            bail!("the header {ours} cannot be given: it follows from the body and from how connections are kept");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::once(vec![Step::get(Url::parse("http://h/").expect("a URL"))])
    }

    #[test]
    fn counts_outside_their_limits_are_refused() {
        assert!(plan().check().is_ok());
        let spoilers: [fn(&mut Plan); 16] = [
            |plan| plan.users = 0,
            |plan| plan.users = USERS_MAX + 1,
            |plan| plan.loops = Some(0),
            |plan| plan.loops = None,
            |plan| plan.duration = Some(Duration::ZERO),
            |plan| plan.duration = Some(Duration::from_hours(25)),
            |plan| plan.rate = Some(f64::NAN),
            |plan| plan.rate = Some(0.0),
            |plan| plan.steps.clear(),
            |plan| plan.steps = vec![plan.steps[0].clone(); STEPS_MAX + 1],
            |plan| plan.steps[0].body = Arc::from(*b"x"),
            |plan| plan.steps[0].expect.bytes_max = 0,
            |plan| plan.steps[0].expect.statuses.clear(),
            |plan| plan.steps[0].headers = [("A".into(), "b\r\nC: d".into())].into(),
            |plan| plan.steps[0].headers = [("A b".into(), "c".into())].into(),
            |plan| plan.steps[0].headers = [("content-length".into(), "7".into())].into(),
        ];
        for spoil in spoilers {
            let mut plan = plan();
            spoil(&mut plan);
            assert!(plan.check().is_err(), "{plan:?}");
        }
    }

    #[test]
    fn a_rate_excludes_ramp_up_and_think_time() {
        let open = Plan { rate: Some(10.0), ..plan() };
        assert!(open.check().is_ok());
        assert!(Plan { ramp_up: Duration::from_secs(1), ..open.clone() }.check().is_err());
        let mut thinking = open;
        thinking.steps[0].think.push(Think::Constant(Duration::from_secs(1)));
        assert!(thinking.check().is_err());
    }

    #[test]
    fn a_plan_shows_no_password() {
        let mut plan = plan();
        plan.steps[0].credentials = Some(("me".to_owned(), "hidden".to_owned()));
        assert!(!format!("{plan:?}").contains("hidden"));
    }
}
