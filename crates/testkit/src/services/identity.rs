//! A small, strict token server after the OpenStack Identity API v3 ("Password authentication with scoped authorization",
//! "Authenticating with an Application Credential"). **It is not Keystone**: it stands in front of a real Swift with TempAuth,
//! signs in there, and hands the real token out in Keystone's form. What it is not sent as the specification says, it
//! refuses with 400; wrong credentials with 401.

use super::proxy::{Request, read_request};
use super::{ask, swift::Swift};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A running token server. Ends with the process.
#[derive(Debug)]
pub struct Identity {
    address: SocketAddr,
    granted: Arc<AtomicU64>,
}

impl Identity {
    /// The user's name; the domain is `Default`.
    pub const USER: &str = "drive";
    /// The user's password.
    pub const PASSWORD: &str = "correct horse";
    /// The project's name.
    pub const PROJECT: &str = "storage";
    /// An application credential's id.
    pub const CREDENTIAL: &str = "0123456789abcdef0123456789abcdef";
    /// Its secret.
    pub const SECRET: &str = "battery staple";

    /// Starts one in front of the Swift whose proxy server is at this port. Tokens last `seconds`.
    pub fn start(swift_port: u16, seconds: i64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let granted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&granted);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // One at a time is enough for signing in.
                let _ = serve(&socket, swift_port, seconds, &count);
            }
        });
        Ok(Self { address, granted })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}/v3", self.address)
    }

    /// How many tokens it has given.
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }
}

fn serve(mut socket: &TcpStream, swift_port: u16, seconds: i64, granted: &AtomicU64) -> io::Result<()> {
    let Some(request) = read_request(&mut socket)? else { return Ok(()) };
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let (status, token) = match judge(&request, &body) {
        Some(true) => (201, sign_in(swift_port)),
        Some(false) => (401, None),
        None => (400, None),
    };
    let (head, body) = match token {
        Some(token) => {
            granted.fetch_add(1, Ordering::Relaxed);
            (format!("X-Subject-Token: {token}\r\n"), granted_body(swift_port, seconds))
        }
        None => (String::new(), format!(r#"{{"error": {{"code": {status}, "title": "refused"}}}}"#)),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nConnection: close\r\n{head}Content-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(answer.as_bytes())
}

/// Whether the credentials are right; none if the request is not as specified.
fn judge(request: &Request, body: &str) -> Option<bool> {
    let json = request.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    if request.method != "POST" || request.path != "/v3/auth/tokens" || !json {
        return None;
    }
    // White space does not matter in JSON, and none of these strings has any but in values.
    let compact: String = body
        .split('"')
        .enumerate()
        .map(
            |(index, part)| {
                if index % 2 == 0 { part.split_whitespace().collect::<String>() } else { format!("\"{part}\"") }
            },
        )
        .collect();
    let has = |name: &str, value: &str| compact.contains(&format!("\"{name}\":\"{value}\""));
    if compact.contains(r#""methods":["application_credential"]"#) && compact.contains(r#""application_credential":{"#)
    {
        return Some(has("id", Identity::CREDENTIAL) && has("secret", Identity::SECRET));
    }
    let scoped = compact.contains(r#""scope":{"project":{"#) && compact.contains(r#""domain":{"name":"#);
    if compact.contains(r#""methods":["password"]"#) && compact.contains(r#""password":{"user":{"#) && scoped {
        let user = has("name", Identity::USER) && has("password", Identity::PASSWORD);
        return Some(user && has("name", Identity::PROJECT) && has("name", "Default"));
    }
    None
}

fn sign_in(port: u16) -> Option<String> {
    let credentials = [("X-Auth-User", Swift::USER), ("X-Auth-Key", Swift::KEY), ("X-Auth-New-Token", "true")];
    let (_, answer) = ask(port, "GET", "/auth/v1.0", &credentials).ok()?;
    let line = answer.lines().find(|line| line.to_ascii_lowercase().starts_with("x-auth-token:"))?;
    line.split_once(':').map(|(_, token)| token.trim().to_owned())
}

fn granted_body(port: u16, seconds: i64) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let expires = timestamp(now + seconds);
    format!(
        r#"{{"token": {{"methods": ["password"], "expires_at": "{expires}", "user": {{"name": "{user}"}}, "catalog": [
        {{"type": "identity", "name": "keystone", "endpoints": []}},
        {{"type": "object-store", "name": "swift", "endpoints": [
            {{"id": "1", "interface": "public", "region": "north", "region_id": "north", "url": "http://127.0.0.1:1/v1/AUTH_test"}},
            {{"id": "2", "interface": "public", "region": "south", "region_id": "south", "url": "http://127.0.0.1:{port}/v1/AUTH_test"}},
            {{"id": "3", "interface": "internal", "region": "south", "region_id": "south", "url": "http://127.0.0.1:2/v1/AUTH_test"}}]}}]}}}}"#,
        user = Identity::USER
    )
}

/// A time in the form Keystone gives. Days to a date after Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
fn timestamp(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * month_index + 2) / 5 + 1, (month_index + 2) % 12 + 1);
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.000000Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00.000000Z");
    }
}
