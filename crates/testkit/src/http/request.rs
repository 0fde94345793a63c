//! A request while it is put together.

use std::io::{self, Read, Write};

/// Method, target, fields and body of a request.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    /// A request for a path, which is percent-encoded here.
    pub fn new(method: &str, path: &str) -> Self {
        Self::with_target(method, &super::encode_path(path))
    }

    /// A request whose target is sent as it stands.
    pub fn with_target(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: None }
    }

    /// With one more field.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// With a field, if there is a value.
    #[must_use]
    pub fn maybe_header(self, name: &str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends it; a streamed body of known length follows the fields where given.
    pub(crate) fn write(
        &self,
        common: &[(&str, &str)],
        stream: Option<(u64, &mut dyn Read)>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        for (name, value) in common {
            if !self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name)) {
                write!(head, "{name}: {value}\r\n")?;
            }
        }
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        let body_len = self.body.as_ref().map(|body| body.len() as u64);
        if let Some(length) = body_len.or(stream.as_ref().map(|(length, _)| *length)) {
            write!(head, "Content-Length: {length}\r\n")?;
        }
        head.extend_from_slice(b"\r\n");
        // Small bodies travel in the packet of the head.
        if let Some(body) = &self.body {
            head.extend_from_slice(body);
        }
        out.write_all(&head)?;
        if let Some((length, stream)) = stream {
            io::copy(&mut stream.take(length), out)?;
        }
        out.flush()
    }
}

impl Request {
    /// A PROPPATCH (RFC 4918 section 9.2) ; `changes` set (`Some`) or remove (`None`).
    pub fn proppatch(path: &str, namespace: &str, changes: &[(&str, Option<&str>)]) -> Self {
        use quick_xml::escape::escape;
        let mut body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\
         <D:propertyupdate xmlns:D=\"DAV:\" xmlns:x=\"{}\">",
            escape(namespace)
        );
        for (name, value) in changes {
            let change = match value {
                Some(value) => {
                    let value = escape(*value);
                    format!("<D:set><D:prop><x:{name}>{value}</x:{name}></D:prop></D:set>")
                }
                None => format!("<D:remove><D:prop><x:{name}/></D:prop></D:remove>"),
            };
            body.push_str(&change);
        }
        body.push_str("</D:propertyupdate>");
        Self::new("PROPPATCH", path).header("Content-Type", "application/xml; charset=utf-8").body(body)
    }

    /// A LOCK (RFC 4918 section 9.10) for writing; `scope` is `exclusive` or `shared`.
    pub fn lock(path: &str, scope: &str, depth: &str) -> Self {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:lockinfo xmlns:D=\"DAV:\">\
         <D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner>testkit</D:owner></D:lockinfo>"
        );
        Self::new("LOCK", path)
            .header("Depth", depth)
            .header("Timeout", "Second-3600")
            .header("Content-Type", "application/xml; charset=utf-8")
            .body(body)
    }
}
