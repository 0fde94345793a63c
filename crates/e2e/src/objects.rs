//! The packs of one drive, reached behind its back, as whoever runs the store reaches them: files of a folder, or objects by requests to
//! the service itself. Nothing of the program's own code is used, and an object that is written here has none of the metadata that the
//! program gives it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use holdfast_testkit::http::{Client, Request, Response};
use holdfast_testkit::services::seaweed::Seaweed;
use holdfast_testkit::services::swift::Swift;
use serde_json::Value;

use crate::Outcome;

/// Objects of a list: more than the drives of tests have.
const LIST_MAX: usize = 10_000;

/// The packs of one drive.
#[derive(Debug, Clone)]
pub struct Objects(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Folder(PathBuf),
    Service(Service),
}

/// An object service.
#[derive(Debug, Clone)]
struct Service {
    address: SocketAddr,
    /// What the paths of objects begin with.
    path: String,
    /// The path that lists them.
    list: String,
    token: Option<String>,
}

impl Objects {
    /// Files in folders of a folder.
    pub fn folder(folder: PathBuf) -> Self {
        Self(Kind::Folder(folder))
    }

    /// Objects of SeaweedFS below a prefix. Its filer, which needs no signatures, shows a bucket as a folder.
    pub fn seaweed(server: &Seaweed, prefix: &str) -> Self {
        let path = format!("/buckets/{}/{prefix}/", Seaweed::BUCKET);
        let list = format!("{path}?limit={LIST_MAX}");
        Self(Kind::Service(Service { address: local(server.filer_port), path, list, token: None }))
    }

    /// Objects of Swift below a prefix.
    pub fn swift(server: &Swift, prefix: &str) -> Outcome<Self> {
        let container = Swift::container_path();
        let list = format!("{container}?prefix={prefix}/&limit={LIST_MAX}&format=json");
        let (address, path) = (local(server.port), format!("{container}/{prefix}/"));
        Ok(Self(Kind::Service(Service { address, path, list, token: Some(server.token()?) })))
    }

    /// The names of all, sorted.
    pub fn names(&self) -> Outcome<Vec<String>> {
        let mut names = match &self.0 {
            Kind::Folder(folder) => files(folder)?,
            Kind::Service(service) => service.names()?,
        };
        names.sort();
        Ok(names)
    }

    /// The bytes of one.
    pub fn read(&self, name: &str) -> Outcome<Vec<u8>> {
        match &self.0 {
            Kind::Folder(folder) => Ok(fs::read(folder.join(name))?),
            Kind::Service(service) => Ok(service.ask("GET", name, None)?.body),
        }
    }

    /// Puts these bytes in its place.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Outcome {
        match &self.0 {
            Kind::Folder(folder) => fs::write(folder.join(name), bytes)?,
            Kind::Service(service) => drop(service.ask("PUT", name, Some(bytes))?),
        }
        Ok(())
    }

    /// Takes one away.
    pub fn remove(&self, name: &str) -> Outcome {
        match &self.0 {
            Kind::Folder(folder) => fs::remove_file(folder.join(name))?,
            Kind::Service(service) => drop(service.ask("DELETE", name, None)?),
        }
        Ok(())
    }

    /// Flips bits of a byte of one.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) -> Outcome {
        let mut bytes = self.read(name)?;
        bytes[usize::try_from(offset)?] ^= mask;
        self.write(name, &bytes)
    }

    /// How long one is.
    pub fn bytes_of(&self, name: &str) -> Outcome<u64> {
        match &self.0 {
            Kind::Folder(folder) => Ok(fs::metadata(folder.join(name))?.len()),
            Kind::Service(service) => {
                let answer = service.ask("HEAD", name, None)?;
                Ok(answer.header("content-length").ok_or("no length")?.parse()?)
            }
        }
    }

    /// How long all are together. One that goes away between the list and the question for its length has none.
    pub fn bytes(&self) -> Outcome<u64> {
        let names = self.names()?;
        let lengths = names.iter().map(|name| match self.bytes_of(name) {
            Err(_) if !self.names()?.contains(name) => Ok(0),
            length => length,
        });
        lengths.sum()
    }
}

impl Service {
    fn names(&self) -> Outcome<Vec<String>> {
        let answer = self.send(Request::with_target("GET", &self.list).header("Accept", "application/json"))?;
        // SeaweedFS: a folder is made with the first object in it.
        if answer.status == 404 || answer.status == 204 {
            return Ok(Vec::new());
        }
        let list: Value = serde_json::from_slice(&answer.expect_status(200)?.body)?;
        let (entries, key) = match &list["Entries"] {
            Value::Null => (&list, "name"),
            entries => (entries, "FullPath"),
        };
        let name = |entry: &Value| entry[key].as_str()?.rsplit('/').next().map(ToOwned::to_owned);
        Ok(entries.as_array().into_iter().flatten().filter_map(name).collect())
    }

    fn ask(&self, method: &str, name: &str, body: Option<&[u8]>) -> Outcome<Response> {
        let request = Request::new(method, &format!("{}{name}", self.path));
        let answer = self.send(match body {
            Some(body) => request.body(body),
            None => request,
        })?;
        if answer.is_success() { Ok(answer) } else { Err(format!("{method} {name}: {}", answer.status).into()) }
    }

    fn send(&self, request: Request) -> Outcome<Response> {
        Ok(Client::new(self.address).send(&request.maybe_header("X-Auth-Token", self.token.clone()))?)
    }
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Files in the folders of a folder.
fn files(folder: &Path) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for inner in fs::read_dir(folder)? {
        for file in fs::read_dir(inner?.path())? {
            let path = file?.path();
            let name = path.strip_prefix(folder)?.to_str().ok_or("a name that is not UTF-8")?;
            found.push(name.to_owned());
        }
    }
    Ok(found)
}
